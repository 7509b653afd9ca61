/* Typical acceptance over the run: entropy against p of every judged candidate, the threshold over them with sliders for ε and δ, and how far
   what it emits is from p. Everything is a function of the records: no slider asks a model or the server. */

const TYPICAL_MARKS = [["●", "accepted", "accepted"], ["○", "accepted", "beside"], ["✕", "refused", "refused"], ["━", "ink", "threshold"]];
const TYPICAL_DRAW = ["all", "run", "steps", "step", "rule", "bar", "language", "theme", "size"];
const CELLS = { entropy: 0.03, p: 0.04 }; // nats, decades: marks of one state that lie closer cover each other, and one of them is drawn
const MANY = 1500; // marks; with fewer of them all are drawn

class TypicalPanel extends SeriesPanel {
  constructor(player) {
    super(player, "typical", "computed");
    this.lag = 2 * SLOW;
  }

  build() {
    super.build();
    this.book = new RuleBook();
    this.marks = el("div.sv-marks");
    this.mark = el("p.sv-changes");
    this.figure = el("p.sv-typical-kl");
    this.dials = { epsilon: new Dial(0, 0.5, 0.01), delta: new Dial(0, 1, 0.02) };
    for (const [name, dial] of Object.entries(this.dials)) {
      dial.input.addEventListener("input", () => this.turned(name, Number(dial.input.value)));
      this.player.tip(dial.name, () => this.say(`typical.${name}_tip`));
    }
    this.reset = el("button.sv-chip", { type: "button", onclick: () => this.turnBack() });
    this.notes = el("div.sv-typical-notes");
    const dials = Object.values(this.dials).map((dial) => dial.root);
    const side = el("div.sv-cost-side", null, this.mark, this.figure, dials, el("div.sv-chips", null, this.reset), this.notes);
    this.body.replaceChildren(el("div.sv-cost-plot", null, this.plot, this.wait, this.marks), side);
  }

  label() {
    super.label();
    setText(this.reset, this.say("typical.reset"));
    this.marks.replaceChildren(...TYPICAL_MARKS.map(([sign, colour, name]) => (
      el("span.sv-signed", { "data-sign": sign, style: `--mark: var(--sv-${colour})` }, this.say(`typical.mark_${name}`))
    )), el("span.sv-signed", { "data-sign": "◉", style: "--mark: var(--sv-soft)" }, this.say("typical.mark_now")));
  }

  emptyKey() {
    const { run, steps } = this.store;
    if (!run?.header || !steps.length) return "player.empty_typical";
    if (run.header.config.temperature === 0) return "typical.zero";
    return nothingProposed(run) || (this.page.outcome.counts ? null : "typical.unrecorded");
  }

  // ---- ε and δ ------------------------------------------------------------------------------------------------------------------

  turned(name, value) {
    this.store.tryBar({ [name]: value });
    this.told();
  }

  turnBack() {
    const { epsilon, delta } = this.store.recordedRule;
    this.store.tryBar({ epsilon, delta });
    this.told();
  }

  /** The page around may have sliders of its own for them. */
  told() {
    this.root.dispatchEvent(new CustomEvent("specviz-bar", { bubbles: true, detail: this.store.bar }));
  }

  turn() {
    const { bar, recordedRule } = this.store;
    let moved = false;
    for (const [name, dial] of Object.entries(this.dials)) {
      const other = bar[name] !== recordedRule[name];
      moved ||= other;
      dial.input.max = Math.max(name === "epsilon" ? 0.5 : 1, bar[name]);
      dial.show(this.say(`typical.dial_${name}`), bar[name], this.say(other ? "cost.what_if" : "cost.of_run"), other);
    }
    this.reset.disabled = !moved;
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

  points() {
    return [...linePoints(this.store.bar, widestOf(this.candidates)), ...apart(this.candidates)];
  }

  /** Here the other steps are the picture: they step back no further than a step can stand out. */
  get faded() {
    return 0.5;
  }

  extraKey() {
    return `${this.store.bar.epsilon}/${this.store.bar.delta}`;
  }

  /** While a slider is moved the figure must follow at once, whatever a live run does. */
  tooSoon() {
    const moved = this.drawnFor !== this.extraKey();
    this.drawnFor = this.extraKey();
    return !moved && super.tooSoon();
  }

  adjust(fig) {
    return { ...fig, layout: { ...fig.layout, xaxis: { ...fig.layout.xaxis, range: [0, widestOf(this.candidates)] } } };
  }

  clicked(event) {
    super.clicked(event);
    const { curveNumber, pointNumber } = event.points[0];
    const point = this.filled.data[curveNumber]?.points?.[pointNumber];
    if (point?.node) this.store.select(point.node);
  }

  update(changed) {
    if (!TYPICAL_DRAW.some((name) => changed.has(name))) return;
    this.turn();
    this.tell();
    super.update(changed);
  }

  caption() {
    const count = (state) => this.candidates.filter((one) => one.state === state).length;
    const states = { accepted: count("accepted"), beside: count("beside"), refused: count("refused") };
    return this.say("typical.caption", { count: this.candidates.length, ...states });
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

/** Of many points, those that do not cover each other. */
function apart(points) {
  if (points.length <= MANY) return points;
  const cells = new Set();
  return points.filter(({ state, entropy, shown: p }) => {
    const cell = `${state}/${Math.round(entropy / CELLS.entropy)}/${Math.round(Math.log10(p) / CELLS.p)}`;
    return !cells.has(cell) && cells.add(cell);
  });
}

/** A button that shows a step, for the keyboard, too. */
function stepLink(panel, step, text = String(step + 1)) {
  return el("button.sv-link", { type: "button", "aria-label": panel.say("typical.at", { step: step + 1 }), onclick: () => panel.store.seek(step) }, text);
}
