/* All figures of acceptance side by side, each with its formula and its counts: of the run as it was decoded, or as another rule judges it. */

class AcceptancePanel extends Panel {
  constructor(player) {
    super(player, "acceptance", "measured");
  }

  build() {
    super.build();
    this.figures = el("dl.sv-rates");
    this.depthTitle = el("h3.sv-why-title");
    this.depths = el("div.sv-depths");
    this.names = el("p.sv-rates-names");
    this.another = el("p");
    this.body.append(el("div.sv-why-notes", null, this.another), this.figures, this.depthTitle, this.depths, this.names);
  }

  emptyKey() {
    const { run, current } = this.store;
    if (!current) return "player.empty_acceptance";
    return run.header.config.method === "plain" ? "player.nothing_proposed" : null;
  }

  label() {
    super.label();
    setText(this.depthTitle, this.say("player.acceptance_depths"));
    setText(this.names, this.say("player.acceptance_names"));
    this.drawn = null;
  }

  /** Behind the first step that another rule decides otherwise the text would be another one, so those steps are not counted. */
  get counted() {
    const { store } = this;
    return store.steps.map(({ step }, i) => ({ step, i })).filter(({ i }) => store.comparable(i));
  }

  get counts() {
    return addCounts(this.counted.map(({ step, i }) => countStep(step, this.store.judged(i), this.store.rule)));
  }

  caption() {
    return this.say("player.caption_acceptance", { steps: this.counted.length });
  }

  update() {
    const { run, steps, whatIf, rejudged } = this.store;
    const now = [run, steps.length, whatIf, rejudged];
    if (this.drawn?.every((one, i) => one === now[i])) return;
    this.drawn = now;
    setAttr(this.another, "hidden", whatIf ? null : true);
    if (whatIf) setText(this.another, this.say("player.acceptance_whatif", { rule: this.say(`player.name_${whatIf.rule}`), steps: this.counted.length }));
    const counts = this.counts;
    this.figures.replaceChildren(...figuresOf(counts).map((figure) => this.figure(figure)));
    setAttr(this.depthTitle, "hidden", counts.depths.length ? null : true);
    this.depths.replaceChildren(...counts.depths.map((depth, i) => this.bar(depth, i + 1)));
  }

  figure({ figure, over, under, value, formula, origin = "measured" }) {
    const counts = value === null ? this.say("player.acceptance_none") : `${number(over)} / ${number(under)} =`;
    return el("div.sv-rate", { "data-figure": figure }, el("dt", null, this.say(`acceptance.${figure}`), el("small", null, `${this.say(formula)} · ${this.say(`player.tag_${origin}`)}`)), el("dd", null, el("span", null, counts), el("b", null, value === null ? "–" : number(value))));
  }

  bar({ accepted, reached }, depth) {
    const share = accepted / reached;
    const said = `${accepted} / ${reached} = ${number(share)}`;
    return el("div.sv-depth", { "data-depth": depth }, el("span", null, this.say("player.acceptance_depth", { depth })), el("i", { "aria-hidden": "true" }, el("i", { style: `width: ${(100 * share).toFixed(2)}%` })), el("b", null, said));
  }

  rows() {
    const counts = this.counts;
    const whole = figuresOf(counts).map(({ figure, over, under, value }) => ({ figure, depth: null, over, under, value }));
    return [...whole, ...counts.depths.map(({ accepted, reached }, i) => ({ figure: "depth", depth: i + 1, over: accepted, under: reached, value: accepted / reached }))];
  }
}

/** [{figure, over, under, value, formula, origin}]: what is divided by what; `value` is null where nothing can be said. */
function figuresOf(counts) {
  const expected = expectedRateOf(counts);
  const divided = (over, under) => (under ? over / under : null);
  return [
    { figure: "tokens_per_step", over: counts.tokens, under: counts.steps, value: divided(counts.tokens, counts.steps), formula: "formula.tokens_per_step" },
    { figure: "rate", over: counts.accepted, under: counts.tested, value: rateOf(counts), formula: "formula.acceptance_rate" },
    { figure: "yield", over: counts.accepted, under: counts.drafted, value: divided(counts.accepted, counts.drafted), formula: "formula.acceptance_yield" },
    { figure: "expected", over: expected === null ? null : counts.overlap, under: counts.compared || null, value: expected, formula: "formula.expected_acceptance", origin: "computed" },
  ];
}
