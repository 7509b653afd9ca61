/* The cost model: what the run should gain by the measured times of the passes, what it did gain, and what would be best on this machine.
   The sliders start at what was measured; as soon as one is moved, its value is a "what if". */

const COST_LEGEND = [["—", "accent", "speedup"], ["◯", "accent", "chosen"], ["★", "accepted", "best"], ["◆", "ink", "run"], ["╌", "bonus", "expected"]];
const TREE_LEGEND = [["☆", "bonus", "fullest"]];
const PASS_LEGEND = [["●", "verify", "verify"], ["▲", "propose", "draft"], ["┄", "ink", "plain"]];

class CostPanel extends ChartPanel {
  constructor(player) {
    super(player, "cost", "computed");
    this.wishes = {};
  }

  build() {
    super.build();
    this.marks = el("div.sv-marks");
    this.views = ["depth", "size"].map((view) => el("button.sv-chip", { type: "button", onclick: () => this.see(view) }));
    this.dials = { alpha: new Dial(0, 1, 0.01), at: new Dial(1, LONGEST, 1), ratio: new Dial(0, 1, 0.01) };
    for (const [name, dial] of Object.entries(this.dials)) {
      dial.input.addEventListener("input", () => this.wish({ ...this.wishes, [name]: Number(dial.input.value) }));
      this.player.tip(dial.name, () => this.meaning(name));
    }
    this.reset = el("button.sv-chip", { type: "button", onclick: () => this.wish({}) });
    this.worth = el("div.sv-worth", { "aria-hidden": "true" });
    this.inequality = el("p.sv-inequality");
    this.compared = el("table.sv-table");
    this.advice = el("p.sv-advice");
    const chips = el("div.sv-chips", null, this.views, this.reset);
    const side = el("div.sv-cost-side", null, chips, Object.values(this.dials).map((dial) => dial.root), this.worth, this.inequality, this.compared, this.advice);
    this.body.replaceChildren(el("div.sv-cost-plot", null, this.plot, this.wait, this.marks), side);
  }

  label() {
    super.label();
    setText(this.reset, this.say("cost.reset"));
    this.views.forEach((chip, i) => setText(chip, this.say(`cost.view_${["depth", "size"][i]}`)));
  }

  emptyKey() {
    const { run } = this.store;
    if (!run?.header || !this.store.current) return "player.empty_cost";
    if (run.header.config.method === "plain") return "cost.plain";
    if (!run.header.timings) return "cost.no_timings";
    return this.measure() ? null : "player.empty_cost";
  }

  refresh(changed, atLeisure) {
    if (["all", "run", "steps", "rule", "language"].some((name) => changed.has(name))) this.known = null;
    if (changed.has("run")) this.wishes = {};
    super.refresh(changed, atLeisure);
  }

  /** {model, alpha, kind, at, tokens, speedup, bySize} of the run so far, under the rule that is tried; null where there is no model. */
  measure() {
    if (this.known) return this.known.model ? this.known : null;
    const { run } = this.store;
    const steps = this.store.steps.map((view) => view.step).filter((_, i) => this.store.comparable(i));
    const counts = addCounts(steps.map((step, i) => countStep(step, this.store.judged(i), this.store.rule)));
    const chance = alphaOf(counts);
    const model = chance && costModel(run.header, steps);
    const view = this.view || (fullTree(run.header.config) ? "depth" : "size");
    const bySize = Boolean(model?.trees.length) && view === "size";
    this.known = {
      model, bySize, alpha: chance?.value, kind: chance?.kind, steps: steps.length, tokens: counts.tokens / counts.steps,
      at: bySize ? Math.max(...steps.map((step) => step.tree.length - 1)) : depthOf(steps),
      speedup: this.store.whatIf ? null : runTotals(run).speedup, // another rule's time cannot be measured
    };
    return model ? this.known : null;
  }

  /** What is asked: the measured values, but for the wishes. */
  asked() {
    const known = this.measure();
    const { alpha = known.alpha, at = known.at, ratio = null } = this.wishes;
    const model = ratio === null ? known.model : known.model.withRatio(ratio);
    const chosen = known.bySize ? model.predictTree(at) : model.predict(alpha, at);
    return { ...known, model, alpha, at, ran: known.at, chosen, wished: Object.keys(this.wishes).length > 0 };
  }

  curve({ model, alpha, bySize }) {
    return bySize ? model.bySize() : model.byDepth(alpha);
  }

  wish(wishes) {
    this.wishes = wishes;
    this.pending.add("wish");
    this.player.invalidate("sight");
  }

  see(view) {
    this.view = view;
    this.known = null;
    const { at, ...others } = this.wishes; // K and the size of a tree are different things
    this.wish(others);
  }

  caption() {
    const { known } = this;
    const own = known.bySize ? known.model.predictTree(known.at) : known.model.predict(known.alpha, known.at);
    const predicted = own ? number(own.speedup, 3) : "–";
    return known.speedup === null ? this.say("cost.caption_predicted", { predicted }) : this.say("cost.caption", { predicted, measured: number(known.speedup, 3) });
  }

  update(changed) {
    if (!["all", "run", "steps", "rule", "language", "theme", "size", "wish"].some((name) => changed.has(name)) || this.tooSoon(changed)) return;
    const asked = this.asked();
    this.turn(asked);
    this.legend(asked);
    this.explain(asked);
    super.update(changed);
  }

  /** While steps stream in, the model may lag a little behind them. */
  tooSoon(changed) {
    const { run } = this.store;
    const now = performance.now();
    if (run.live && !run.done && now - this.drawnAt < LAG && !changed.has("wish")) {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.again(), LAG);
      return true;
    }
    this.drawnAt = now;
    return false;
  }

  paint() {
    const asked = this.asked();
    const fig = this.store.run.figures.cost;
    const layout = { ...fig.layout, yaxis: { ...fig.layout.yaxis, range: [0, this.top(asked)] } };
    for (const [path, value] of Object.entries(fig.views[asked.bySize ? "size" : "depth"])) {
      const [axis, field] = path.split(".");
      layout[axis] = { ...layout[axis], [field]: value };
    }
    this.chart.draw(filled({ ...fig, layout }, costPoints(asked.model, asked)));
    this.host.setAttribute("aria-label", `${this.say("player.title_cost")}: ${this.caption()}`);
  }

  /** The axis holds the curve and the run; the expected tokens may leave it, where α is near 1. */
  top({ model, alpha, bySize, speedup, tokens }) {
    const highest = bestOf(this.curve({ model, alpha, bySize }))?.speedup || 0;
    return 1.15 * Math.max(1.5, highest, speedup || 0, Math.min(tokens, 2 * highest));
  }

  rows() {
    const asked = this.asked();
    return this.curve(asked).map((one) => ({ ...one, now: one.at === asked.at }));
  }

  // ---- sliders and sentences ----------------------------------------------------------------------------------------------------

  /** Set the sliders; those that nobody moved follow the run. */
  turn({ model, alpha, at, bySize }) {
    const sizes = this.curve({ model, alpha, bySize }).map((one) => one.at);
    const values = { alpha, at, ratio: model.ratio };
    const counted = this.known.kind === "observed"; // else α is computed from p and q
    const origins = { alpha: counted ? "player.tag_measured" : "player.tag_computed", at: "cost.of_run", ratio: this.known.model.draft.length ? "player.tag_measured" : "cost.no_model" };
    this.dials.at.input.max = Math.max(at, ...sizes);
    this.dials.ratio.input.max = Math.max(1, Math.ceil(this.known.model.ratio));
    for (const [name, dial] of Object.entries(this.dials)) {
      const moved = name in this.wishes;
      const void_ = name === "alpha" && bySize; // the calibration takes its place
      const title = this.say(`cost.dial_${name === "at" && bySize ? "size" : name}`);
      dial.show(title, void_ ? null : values[name], this.say(moved ? "cost.what_if" : origins[name]), moved);
      dial.input.disabled = void_;
      setFlag(dial.root, "sv-void", void_);
    }
    this.reset.disabled = !Object.keys(this.wishes).length;
    this.views.forEach((chip, i) => {
      setAttr(chip, "hidden", this.known.model.trees.length ? null : true);
      setAttr(chip, "aria-pressed", String((i === 1) === bySize));
    });
  }

  /** What the figure holds, by its signs. */
  legend({ model, bySize }) {
    const passes = PASS_LEGEND.filter(([, , series]) => series !== "draft" || model.draft.length);
    const entries = [...COST_LEGEND, ...(bySize ? TREE_LEGEND : []), ...passes];
    this.marks.replaceChildren(...entries.map(([sign, colour, name]) => (
      el("span.sv-signed", { "data-sign": sign, style: `--mark: var(--sv-${colour})` }, this.say(`cost.mark_${name}`))
    )));
  }

  meaning(name) {
    const known = this.measure();
    if (!known) return "";
    if (name === "alpha") return this.say(known.bySize ? "cost.alpha_calibrated" : `cost.alpha_${known.kind}`, { value: number(known.alpha), steps: known.steps });
    if (name === "at") return this.say(known.bySize ? "cost.size_tip" : "cost.at_tip", { at: known.at });
    const args = { ratio: number(known.model.ratio), draft: milliseconds(known.model.ratio * known.model.plain), plain: milliseconds(known.model.plain) };
    return this.say(known.model.draft.length ? "cost.ratio_tip" : "cost.ratio_none", args);
  }

  explain(asked) {
    const { chosen, wished, tokens } = asked;
    for (const part of [this.worth, this.inequality]) setAttr(part, "hidden", chosen ? null : true);
    if (chosen) {
      const m = wished ? chosen.expected : tokens;
      const gain = m * asked.model.plain;
      this.weigh(asked, m, gain);
      this.inequality.replaceChildren(...this.inWords(asked, m, gain).map((line) => el("span", null, line)));
    }
    this.compare(asked);
    setText(this.advice, this.advise(asked));
  }

  /** What m tokens take in plain decoding, whose end is the break-even line, and below it what a step takes: predicted, and measured. */
  weigh({ chosen, wished }, m, gain) {
    const measured = wished || this.store.whatIf ? null : meanStep(this.store.steps.map((view) => view.step));
    const longest = Math.max(gain, chosen.cost, measured?.cost || 0);
    const share = (seconds) => `${(100 * seconds) / longest}%`;
    const part = (kind, seconds) => el(`i.sv-part-${kind}`, { style: `flex: 0 0 ${share(Math.max(0, seconds))}` });
    const step = ({ drafting, verifying, outside }) => [part("propose", drafting), part("verify", verifying), part("commit", outside)];
    const line = (key, args, parts, seconds) => [
      el("span", null, this.say(key, args)),
      el("div.sv-weight", null, parts, el("b", { style: `inset-inline-start: ${share(gain)}` })),
      el("span", null, this.say("player.time", { parts: milliseconds(seconds) })),
    ];
    this.worth.replaceChildren(
      ...line("cost.bar_plain", { m: number(m, 3) }, part("plain", gain), gain),
      ...line(`cost.bar_${wished ? "what_if" : "predicted"}`, {}, step(chosen), chosen.cost),
      ...(measured ? line("cost.bar_measured", {}, step(measured), measured.cost) : []),
    );
  }

  /** The break-even inequality in the numbers of the run. */
  inWords({ model, chosen, wished, bySize }, m, gain) {
    const each = chosen.calls && chosen.drafting / chosen.calls;
    const alike = chosen.calls > 0 && model.hits === 1 && (bySize || model.levels.every((level) => level === 1) || chosen.calls === 1);
    const draft = alike ? `${chosen.calls} × ${milliseconds(each)}` : milliseconds(chosen.drafting);
    const pays = gain > chosen.cost;
    const sum = {
      m: number(m, 3), plain: milliseconds(model.plain), gain: milliseconds(gain), sign: pays ? ">" : "≤", draft, rows: chosen.rows,
      verify: milliseconds(chosen.verifying), rest: milliseconds(chosen.outside), cost: milliseconds(chosen.cost),
    };
    const verdict = wished ? `cost.${pays ? "pays" : "loses"}_what_if` : pays ? "cost.pays" : "cost.loses";
    return [this.say("cost.gain", sum), this.say("cost.cost", sum), this.say(verdict)];
  }

  /** Expected beside observed. */
  compare({ chosen, tokens, speedup, wished }) {
    const cell = (value, unit = "") => el("td", null, value === null || value === undefined ? "–" : `${number(value, 3)}${unit}`);
    const head = [`cost.column_${wished ? "what_if" : "predicted"}`, this.store.whatIf ? "cost.column_judged" : "cost.column_run"];
    this.compared.replaceChildren(
      el("thead", null, el("tr", null, el("td"), head.map((key) => el("th", { scope: "col" }, this.say(key))))),
      el("tbody", null,
        el("tr", null, el("th", { scope: "row" }, this.say("cost.row_tokens")), cell(chosen?.expected), cell(tokens)),
        el("tr", null, el("th", { scope: "row" }, this.say("cost.row_speedup")), cell(chosen?.speedup, "×"), cell(speedup, "×"))),
    );
  }

  /** What would be best on this machine, and from which α on the present K pays. */
  advise({ model, alpha, bySize, chosen, at }) {
    const found = this.curve({ model, alpha, bySize });
    const best = bestOf(found);
    if (!best) return this.say("cost.beyond", { most: model.verify.at(-1)[0] });
    const args = { at: best.at, speedup: number(best.speedup, 3), alpha: number(alpha, 2) };
    const says = [best.speedup > 1 ? this.say(bySize ? "cost.best_size" : "cost.best_depth", args) : this.say("cost.best_none")];
    if (model.hits < 1) says.push(this.say("cost.hits", { share: number(100 * model.hits, 2) }));
    if (!chosen) says.push(this.say("cost.beyond", { most: model.verify.at(-1)[0] }));
    else if (bySize) {
      const most = bestOf(found, "expected");
      says.push(this.say("cost.fullest", { at: most.at, tokens: number(most.expected, 3) }));
    } else {
      const even = model.breakEvenAlpha(at);
      says.push(even === null ? this.say("cost.even_never", { at }) : this.say("cost.even", { at, alpha: number(even, 2), m: number(chosen.breakEven, 3) }));
    }
    return says.join(" ");
  }
}

/** A slider with its name, its value, and whether that was measured. */
class Dial {
  constructor(min, max, step) {
    this.name = el("span.sv-dial-name", { tabindex: 0 });
    this.input = el("input", { type: "range", min, max, step });
    this.value = el("output.sv-dial-value");
    this.origin = el("span.sv-dial-origin");
    this.root = el("label.sv-dial", null, this.name, this.input, this.value, this.origin);
  }

  show(name, value, origin, moved) {
    const text = value === null ? "–" : number(value, 3);
    setText(this.name, name);
    if (Number(this.input.value) !== value && value !== null) this.input.value = value;
    setText(this.value, text);
    setText(this.origin, value === null ? "" : origin);
    setFlag(this.origin, "sv-moved", moved);
    this.input.setAttribute("aria-label", name);
    this.input.setAttribute("aria-valuetext", `${text}, ${origin}`);
  }
}
