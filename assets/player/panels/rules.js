/* The four rules on the same records: a strip of bars for each, what it comes to, and where its text would part from the recorded one. */

const RULES_DRAW = ["all", "run", "steps", "step", "rule", "bar", "language", "theme", "size"];
const RULES_COLUMNS = ["rule", "rate", "per_step", "own_per_step", "emitted_kl", "parts"];
const STRETCH = 240; // steps that the strips show at once

class RulesPanel extends SeriesPanel {
  constructor(player) {
    super(player, "rules", "computed");
    this.lag = 2 * SLOW;
  }

  build() {
    super.build();
    this.book = new RuleBook();
    this.marks = el("div.sv-marks");
    this.notes = el("div.sv-rules-notes");
    this.compared = el("table.sv-table.sv-rules-table");
    this.foot = el("p.sv-foot");
    const frame = el("div.sv-rules-plot", null, this.plot, this.wait, this.marks);
    this.body.replaceChildren(frame, this.compared, this.notes, this.foot);
  }

  label() {
    super.label();
    const mark = (name, look) => el(`span${look}`, { style: `--mark: var(--sv-${name === "extra" ? "faint" : "accepted"})` }, this.say(`rules.mark_${name}`));
    this.marks.replaceChildren(mark("accepted", ""), mark("extra", ""), mark("past", ".sv-hatch"));
    setText(this.foot, this.say("rules.foot"));
  }

  emptyKey() {
    const { run, steps } = this.store;
    return run?.header && steps.length ? nothingProposed(run) : "player.empty_rules";
  }

  caption() {
    const { steps } = this.store;
    const [from, to] = this.stretch;
    return to - from < steps.length ? this.say("rules.caption_stretch", { from: from + 1, to, steps: steps.length }) : this.say("rules.caption", { steps: steps.length });
  }

  /** {judged, outcome} of every rule. */
  get pages() {
    return RULES.map((rule) => this.book.read(this.store.run, rule, this.store.bar));
  }

  /** The steps that the strips show, [from, to): all of a short run, of a long one those around the step on show. */
  get stretch() {
    const { steps, step } = this.store;
    const from = steps.length <= STRETCH ? 0 : clamp(Math.floor(step / STRETCH - 0.25) * STRETCH, 0, steps.length - STRETCH);
    return [from, Math.min(steps.length, from + STRETCH)];
  }

  // ---- the strips ---------------------------------------------------------------------------------------------------------------

  points() {
    const [from, to] = this.stretch;
    const known = this.pages.filter(({ outcome }) => outcome.counts);
    return known.flatMap(({ outcome, judged }) => rulesPoints(outcome, judged).slice(from, to));
  }

  extraKey() {
    return `${this.store.bar.epsilon}/${this.store.bar.delta}/${this.stretch[0]}`;
  }

  adjust(fig) {
    const [from, to] = this.stretch;
    const top = Math.max(2, ...this.points().map((point) => point.tokens));
    const narrow = sizeOf(this.host).wide < 480;
    const layout = { ...fig.layout, xaxis: { ...fig.layout.xaxis, range: [from + 0.4, to + 0.6] } };
    for (const axis of ["yaxis", "yaxis2", "yaxis3", "yaxis4"]) layout[axis] = { ...layout[axis], range: [0, 1.08 * top] };
    if (!narrow) return { ...fig, layout };
    // on a phone the names stand inside, over the bars
    const annotations = layout.annotations.map((note) => ({ ...note, xanchor: "left", xshift: 4, bgcolor: "var:card" }));
    return { ...fig, layout: { ...layout, annotations, margin: { ...layout.margin, l: 26 } } };
  }

  /** A band behind the step on show. */
  emphasise() {
    if (!this.chart.drawn) return;
    const { step } = this.store;
    this.chart.plotly.relayout(this.host, { "shapes[0].x0": step + 0.5, "shapes[0].x1": step + 1.5 });
  }

  update(changed) {
    if (!RULES_DRAW.some((name) => changed.has(name))) return;
    if (["all", "run", "steps", "rule", "bar", "language"].some((name) => changed.has(name))) this.tell();
    super.update(changed);
  }

  // ---- in numbers and words -----------------------------------------------------------------------------------------------------

  tell() {
    const { run, steps } = this.store;
    const head = el("tr", null, RULES_COLUMNS.map((field) => el(`th.sv-r-${field}`, { scope: "col" }, this.say(`rules.column_${field}`))));
    const lines = this.pages.map(({ outcome, judged }) => this.line(outcome, judged));
    this.compared.replaceChildren(el("thead", null, head), el("tbody", null, lines));
    const says = [];
    if (run.header.config.temperature === 0) says.push(this.say("rules.zero"));
    else if (steps.some(({ step }) => !isChosen(step))) says.push(this.say("rules.drawn"));
    this.notes.replaceChildren(...says.map((text) => el("p", null, text)));
  }

  line(outcome, judged) {
    const { rule, counts } = outcome;
    const { bar, recordedRule } = this.store;
    const own = recordedRule.rule === rule && (rule !== "typical" || (bar.epsilon === recordedRule.epsilon && bar.delta === recordedRule.delta));
    const cells = counts ? RULES_COLUMNS.slice(1).map((field) => this.cellOf(field, this.figure(field, outcome, judged)))
      : [el("td", { colspan: RULES_COLUMNS.length - 1 }, this.say("rules.unrecorded"))];
    return el("tr", { "data-rule": rule, class: own ? "sv-now" : null }, el("th", { scope: "row" }, this.named(rule, own)), cells);
  }

  /** A phone shows each number behind the name of its column. */
  cellOf(field, content) {
    return el(`td.sv-r-${field}`, { "data-name": this.say(`rules.column_${field}`) }, el("span", null, content));
  }

  named(rule, own) {
    const { epsilon, delta } = this.store.bar;
    const name = rule === "typical" ? this.say("player.name_typical_numbers", { epsilon: number(epsilon), delta: number(delta) }) : this.say(`player.name_${rule}`);
    return own ? [name, el("small", null, ` ${this.say("rules.of_run")}`)] : name;
  }

  figure(field, outcome, judged) {
    const { counts, own, parts } = outcome;
    if (field === "rate") return counts.tested ? `${counts.accepted} / ${counts.tested} = ${number(rateOf(counts))}` : "–";
    if (field === "per_step") return number(counts.tokens / counts.steps);
    if (field === "own_per_step") return this.say("rules.own", { value: number(own.tokens / own.steps), steps: own.steps, all: counts.steps });
    if (field === "emitted_kl") return this.divergence(outcome);
    return parts === null ? this.say("rules.never") : this.parting(outcome, judged[parts]);
  }

  /** KL(e‖p) in words: whether it is 0 by law, counted from the records, or not to be told. */
  divergence({ rule, kl }) {
    const zero = this.store.recordedRule.temperature === 0;
    if (zero || rule === "rejection" || rule === "match") return this.say(zero ? "rules.kl_zero" : "rules.kl_law");
    const said = kl.nats === null ? this.say("rules.kl_unknown") : `${kl.exact ? "" : "≥ "}${number(klPerToken(kl))}`;
    return rule === "typical" ? el("span.sv-changes", null, this.say("rules.kl_changes", { kl: said })) : said;
  }

  /** Where the texts part, exactly: another word, or the same words in steps of another length. */
  parting({ parts, otherText }, { tokens }) {
    const steps = this.store.steps.map((view) => view.step);
    const { emitted } = steps[parts];
    const said = otherText ? this.otherWord(steps, parts, tokens) : this.say("rules.parts_length", { tokens: tokens.length, recorded: emitted.length });
    return [stepLink(this, parts, this.say("typical.at", { step: parts + 1 })), ` ${said}`];
  }

  otherWord(steps, parts, tokens) {
    const text = steps.slice(parts).flatMap((step) => step.emitted);
    const place = firstOther(steps, parts, tokens);
    const [mine, theirs] = [textOf(steps[parts], tokens[place], place), text[place].text].map((one) => literal(shown(one, 16)));
    return this.say("rules.parts_text", { token: mine, recorded: theirs });
  }

  rows() {
    return this.pages.map(({ outcome: { rule, counts, own, kl, parts } }) => {
      if (!counts) return { rule };
      return {
        rule, accepted: counts.accepted, tested: counts.tested, per_step: counts.tokens / counts.steps, own_steps: own.steps,
        own_per_step: own.tokens / own.steps, parts: parts === null ? null : parts + 1, emitted_kl: klPerToken(kl),
      };
    });
  }

  cell(value, field) {
    return field === "rule" ? this.say(`player.name_${value}`) : super.cell(value, field);
  }
}
