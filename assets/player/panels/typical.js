/* Typical acceptance over the run: entropy against p of every judged candidate, the threshold over them with sliders for ε and δ, and how far
   what it emits is from p. Everything is a function of the records: no slider asks a model or the server. Drawn on a canvas, because a run
   may have thousands of candidates, and all of them move with a slider; specviz/figures/typical.py draws the same with plotly. */

const TYPICAL_MARKS = [["●", "accepted", "accepted"], ["○", "accepted", "beside"], ["✕", "refused", "refused"], ["━", "ink", "threshold"]];
const DECADES = [[1, "1"], [0.1, "0.1"], [0.01, "0.01"], [0.001, "0.001"], [1e-4, "10⁻⁴"], [1e-5, "≤ 10⁻⁵"]];
const REACH = 14; // pixels from the pointer to a mark

class TypicalPanel extends Panel {
  constructor(player) {
    super(player, "typical", "computed");
    this.lag = 2 * SLOW;
  }

  build() {
    super.build();
    this.book = new RuleBook();
    this.canvas = el("canvas", { role: "img" });
    this.host = el("div.sv-chart", null, this.canvas);
    this.marks = el("div.sv-marks");
    this.mark = el("p.sv-changes");
    this.figure = el("p.sv-typical-kl");
    this.dials = { epsilon: new Dial(0, 0.5, 0.01), delta: new Dial(0, 1, 0.02) };
    for (const [name, dial] of Object.entries(this.dials)) {
      dial.input.addEventListener("input", () => this.turned({ [name]: Number(dial.input.value) }));
      this.player.tip(dial.name, () => this.say(`typical.${name}_tip`));
    }
    this.reset = el("button.sv-chip", { type: "button", onclick: () => this.turned(this.store.recordedRule) });
    this.notes = el("div.sv-typical-notes");
    const dials = Object.values(this.dials).map((dial) => dial.root);
    const side = el("div.sv-cost-side", null, this.mark, this.figure, dials, el("div.sv-chips", null, this.reset), this.notes);
    this.body.append(el("div.sv-cost-plot", null, el("div.sv-plot", null, this.host), this.marks), side);
    pointed(this.canvas, this.player, (event) => this.under(event), (point) => this.inWords(point), (point) => this.go(point));
  }

  label() {
    super.label();
    setText(this.reset, this.say("typical.reset"));
    const signed = ([sign, colour, name]) => el("span.sv-signed", { "data-sign": sign, style: `--mark: var(--sv-${colour})` }, this.say(`typical.mark_${name}`));
    this.marks.replaceChildren(...[...TYPICAL_MARKS, ["◉", "soft", "now"]].map(signed));
  }

  emptyKey() {
    const { run, steps } = this.store;
    if (!run?.header || !steps.length) return "player.empty_typical";
    if (run.header.config.temperature === 0) return "typical.zero";
    return nothingProposed(run) || (this.page.outcome.counts ? null : "typical.unrecorded");
  }

  // ---- ε and δ ------------------------------------------------------------------------------------------------------------------

  /** The page around may have sliders of its own for them, so it is told. */
  turned({ epsilon, delta }) {
    const { bar } = this.store;
    this.store.tryBar({ epsilon: epsilon ?? bar.epsilon, delta: delta ?? bar.delta });
    this.root.dispatchEvent(new CustomEvent("specviz-bar", { bubbles: true, detail: this.store.bar }));
  }

  turn() {
    const { bar, recordedRule } = this.store;
    const moved = (name) => bar[name] !== recordedRule[name];
    for (const [name, dial] of Object.entries(this.dials)) {
      dial.input.max = Math.max(name === "epsilon" ? 0.5 : 1, bar[name]);
      dial.show(this.say(`typical.dial_${name}`), bar[name], this.say(moved(name) ? "cost.what_if" : "cost.of_run"), moved(name));
    }
    this.reset.disabled = !moved("epsilon") && !moved("delta");
  }

  // ---- what is drawn ------------------------------------------------------------------------------------------------------------

  /** The steps as typical acceptance judges them, and what comes of it. */
  get page() {
    return this.book.read(this.store.run, "typical", this.store.bar);
  }

  /** All judged candidates; the same list until something changes. */
  get candidates() {
    const { page } = this;
    if (this.from !== page || this.count !== page.judged.length) {
      const { steps, bar } = this.store;
      const found = steps.flatMap(({ step }, i) => typicalPoints(step, page.judged[i].verdicts, bar));
      Object.assign(this, { from: page, count: page.judged.length, found });
    }
    return this.found;
  }

  update() {
    this.turn();
    this.tell();
    this.draw();
  }

  caption() {
    const count = (state) => this.candidates.filter((one) => one.state === state).length;
    const states = { accepted: count("accepted"), beside: count("beside"), refused: count("refused") };
    return this.say("typical.caption", { count: this.candidates.length, ...states });
  }

  draw() {
    const { wide, high } = sizeOf(this.host);
    if (wide < 120 || high < 100) return;
    const pen = sized(this.canvas, wide, high);
    const widest = widestOf(this.candidates);
    const [left, right, top, bottom] = [50, wide - 8, 20, high - 36];
    const x = (entropy) => left + (entropy / widest) * (right - left);
    const y = (p) => bottom + (Math.log10(p / LEAST_SHOWN) / Math.log10(1.2 / LEAST_SHOWN)) * (top - bottom);
    this.axes(pen, { left, right, top, bottom, x, y, widest });
    this.places = this.candidates.map((point) => ({ point, x: x(point.entropy), y: y(point.shown) }));
    const now = ({ point }) => point.step === this.store.step;
    for (const place of this.places) if (!now(place)) this.put(pen, place, 3.4, 0.5);
    this.bend(pen, linePoints(this.store.bar, widest).map((point) => [x(point.entropy), y(Math.max(point.shown, LEAST_SHOWN))]));
    for (const place of this.places) if (now(place)) this.put(pen, place, 4.6, 1);
    this.canvas.setAttribute("aria-label", `${this.say("player.title_typical")}: ${this.caption()}`);
  }

  axes(pen, { left, right, top, bottom, x, y, widest }) {
    const { colours } = this.player;
    Object.assign(pen, { strokeStyle: colours.grid, fillStyle: colours.soft, lineWidth: 1, font: canvasFont(this.host), textBaseline: "middle", textAlign: "right" });
    for (const [p, text] of DECADES) {
      stroke(pen, [[left, y(p)], [right, y(p)]]);
      pen.fillText(text, left - 6, y(p));
    }
    Object.assign(pen, { textBaseline: "top", textAlign: "center" });
    for (const tick of ticks(widest, clamp((right - left) / 90, 3, 9)).filter((one) => one <= widest)) {
      stroke(pen, [[x(tick), top], [x(tick), bottom]]);
      pen.fillText(number(tick), x(tick), bottom + 5);
    }
    pen.fillText(this.say("typical.axis_entropy"), (left + right) / 2, bottom + 20);
    Object.assign(pen, { textAlign: "left", textBaseline: "bottom" });
    pen.fillText(this.say("typical.axis_p"), 8, top - 5);
  }

  put(pen, { point, x, y }, size, alpha) {
    const { colours } = this.player;
    pen.globalAlpha = alpha;
    pen.lineWidth = 1.6;
    pen.strokeStyle = pen.fillStyle = colours[point.state === "refused" ? "refused" : "accepted"];
    pen.beginPath();
    if (point.state === "refused") {
      for (const way of [1, -1]) {
        pen.moveTo(x - size * 0.85, y - way * size * 0.85);
        pen.lineTo(x + size * 0.85, y + way * size * 0.85);
      }
    } else pen.arc(x, y, size, 0, 7);
    if (point.state === "accepted") pen.fill();
    else pen.stroke();
    pen.globalAlpha = 1;
  }

  bend(pen, corners) {
    Object.assign(pen, { strokeStyle: this.player.colours.ink, lineWidth: 1.8 });
    stroke(pen, corners);
  }

  /** The candidate under the pointer, or null. */
  under(event) {
    let best = null;
    let least = REACH ** 2;
    for (const { point, x, y } of this.places || []) {
      const far = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (far <= least) [best, least] = [point, far];
    }
    return best;
  }

  inWords({ step, token, sum, state }) {
    return `“${token}” · ${this.say("typical.at", { step: step + 1 })}\n${sum}\n${this.say(`state.${state}`)}`;
  }

  go({ step, node }) {
    this.store.seek(step);
    this.store.select(node);
  }

  // ---- in words -----------------------------------------------------------------------------------------------------------------

  tell() {
    const { kl, parts } = this.page.outcome;
    const { steps, bar, rule } = this.store;
    setText(this.mark, this.say(rule.rule === "typical" ? "typical.changes" : "typical.would_change"));
    setText(this.figure, this.say(kl.nats === null ? "typical.kl_unknown" : "typical.kl", klArgs(kl)));
    const drawn = steps.some(({ step }) => !isChosen(step));
    const siblings = drawn && kl.nats === null;
    const says = [this.say(siblings ? "typical.siblings" : drawn ? "typical.drawn" : "typical.chosen")];
    if (kl.nats !== null && !drawn && parts === null) says.push(this.say("typical.text", { tokens: kl.tokens, nats: number(kl.nats) }));
    says.push(this.say("typical.rejection"));
    if (drawn) says.push(this.say("rules.drawn"));
    if (Math.min(bar.epsilon, bar.delta) <= 0) says.push(this.say("typical.no_bar"));
    if (says.join() === this.told) return;
    this.told = says.join();
    this.notes.replaceChildren(...says.map((text) => el("p", null, text)));
  }

  rows() {
    return this.candidates.map((point) => ({ ...point, now: point.step === this.store.step }));
  }

  /** The number of a step leads to it. */
  cell(value, field) {
    return field === "step" ? stepLink(this, value) : super.cell(value, field);
  }
}

/** The sentence for a run in which no rule had anything to judge, or null. */
function nothingProposed({ header, steps }) {
  if (header.config.method === "plain") return "typical.plain";
  return steps.some(({ step }) => step.tree.length > 1) ? null : "typical.nothing";
}

/** What a sentence says of KL(e‖p): an equation, or a bound. */
function klArgs(kl) {
  return { sign: kl.exact ? "=" : "≥", value: number(klPerToken(kl)), tokens: kl.tokens };
}

/** A button that shows a step, for the keyboard, too. */
function stepLink(panel, step, text = String(step + 1)) {
  return el("button.sv-link", { type: "button", "aria-label": panel.say("typical.at", { step: step + 1 }), onclick: () => panel.store.seek(step) }, text);
}

/** A canvas whose marks say what they are under the pointer, and lead somewhere at a click. */
function pointed(canvas, player, under, words, go) {
  canvas.addEventListener("mousemove", (event) => {
    const found = under(event);
    canvas.style.cursor = found ? "pointer" : "default";
    if (found) player.tooltip.at(event.clientX, event.clientY + 4, words(found), event.clientY - 4);
    else player.tooltip.hide();
  });
  canvas.addEventListener("mouseleave", () => player.tooltip.hide());
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (found) go(found);
  });
}

function stroke(pen, corners) {
  pen.beginPath();
  corners.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

function canvasFont(host) {
  return `10.5px ${getComputedStyle(host).fontFamily}`;
}
