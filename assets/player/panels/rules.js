/* The four rules on the same records: a strip of bars for each, what it comes to, and where its text would part from the recorded one. The
   strips are drawn on a canvas, as the lane above them is; specviz/figures/rules.py draws the same with plotly. */

const RULES_COLUMNS = ["rule", "rate", "per_step", "own_per_step", "emitted_kl", "parts"];
const STRIP_GAP = 18; // pixels between two strips

class RulesPanel extends Panel {
  constructor(player) {
    super(player, "rules", "computed");
    this.lag = 2 * SLOW;
  }

  build() {
    super.build();
    this.book = new RuleBook();
    this.canvas = el("canvas", { role: "img" });
    this.host = el("div.sv-chart", null, this.canvas);
    this.marks = el("div.sv-marks");
    this.notes = el("div.sv-rules-notes");
    this.compared = el("table.sv-table.sv-rules-table");
    this.foot = el("p.sv-foot");
    this.body.append(el("div.sv-rules-plot", null, el("div.sv-plot", null, this.host), this.marks), this.compared, this.notes, this.foot);
    pointed(this.canvas, this.player, (event) => this.under(event), (point) => this.inWords(point), ({ step }) => this.store.seek(step));
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
    return this.say("rules.caption", { steps: this.store.steps.length });
  }

  /** {judged, outcome} of every rule. */
  get pages() {
    return RULES.map((rule) => this.book.read(this.store.run, rule, this.store.bar));
  }

  update(changed) {
    if (["all", "run", "steps", "rule", "bar", "language"].some((name) => changed.has(name))) this.tell();
    this.draw();
  }

  // ---- the strips ---------------------------------------------------------------------------------------------------------------

  draw() {
    const { wide, high } = sizeOf(this.host);
    if (wide < 120 || high < 120) return;
    const pen = sized(this.canvas, wide, high);
    const { steps, step } = this.store;
    const pages = this.pages;
    const most = Math.max(2, ...pages.flatMap(({ judged }) => judged.map((one) => one?.tokens.length ?? 0)));
    const narrow = wide < 480;
    const left = narrow ? 18 : 104;
    const tall = (high - 30) / RULES.length - STRIP_GAP;
    const pitch = (wide - left - 4) / steps.length;
    this.grid = { left, pitch, tall, each: tall + STRIP_GAP };
    pen.font = canvasFont(this.host);
    pen.fillStyle = this.player.colours.accent_pale;
    pen.fillRect(left + step * pitch, STRIP_GAP - 6, Math.max(1, pitch), high - 28 - STRIP_GAP + 6);
    pages.forEach((page, row) => this.strip(pen, page, { top: row * (tall + STRIP_GAP) + STRIP_GAP, most, narrow, wide }));
    this.numbers(pen, wide, high);
    this.canvas.setAttribute("aria-label", `${this.say("player.title_rules")}: ${this.caption()}`);
  }

  /** The name of a rule, its scale, and a bar for each step. */
  strip(pen, { judged, outcome }, { top, most, narrow, wide }) {
    const { colours } = this.player;
    const { left, pitch, tall } = this.grid;
    Object.assign(pen, { strokeStyle: colours.grid, lineWidth: 1, fillStyle: colours.soft, textAlign: "right", textBaseline: "middle" });
    for (const at of [0, most]) stroke(pen, [[left, top + tall - (at / most) * tall], [wide - 4, top + tall - (at / most) * tall]]);
    pen.fillText(String(most), left - 5, top + 4);
    pen.fillText("0", left - 5, top + tall - 3);
    Object.assign(pen, narrow ? { textAlign: "left", textBaseline: "bottom" } : {});
    pen.fillText(this.say(`player.name_${outcome.rule}`), narrow ? left : left - 22, narrow ? top - 3 : top + tall / 2);
    if (!outcome.counts) return;
    const thick = Math.max(0.7, pitch - (pitch > 5 ? 2 : pitch > 2.5 ? 0.7 : 0));
    rulesPoints(outcome, judged).forEach(({ accepted, extra, past }, i) => {
      let y = top + tall;
      for (const [count, colour] of [[accepted, "accepted"], [extra, "faint"]]) {
        const size = (count / most) * tall;
        y -= size;
        if (size) this.bar(pen, [left + i * pitch, y, thick, size], colours[colour], past);
      }
    });
  }

  bar(pen, box, colour, past) {
    pen.fillStyle = past ? hatched(pen, colour) : colour;
    pen.fillRect(...box);
    if (!past || box[2] < 3) return;
    Object.assign(pen, { strokeStyle: colour, lineWidth: 0.8 });
    pen.strokeRect(box[0] + 0.4, box[1] + 0.4, box[2] - 0.8, box[3] - 0.8);
  }

  numbers(pen, wide, high) {
    const { left, pitch } = this.grid;
    const count = this.store.steps.length;
    Object.assign(pen, { fillStyle: this.player.colours.soft, textAlign: "center", textBaseline: "top" });
    const marks = ticks(count, clamp(wide / 90, 2, 12)).map((tick) => Math.max(1, Math.round(tick)));
    for (const tick of new Set(marks.filter((one) => one <= count))) pen.fillText(String(tick), left + (tick - 0.5) * pitch, high - 28);
    pen.fillText(this.say("rules.axis_step"), (left + wide) / 2, high - 14);
  }

  /** The bar under the pointer: {rule, step, accepted, tokens}, or null. */
  under(event) {
    if (!this.grid) return null;
    const { left, pitch, tall, each } = this.grid;
    const [step, row] = [Math.floor((event.offsetX - left) / pitch), Math.floor((event.offsetY - STRIP_GAP) / each)];
    const page = this.pages[row];
    const inside = event.offsetY - STRIP_GAP - row * each <= tall;
    return page?.outcome.counts && inside && step >= 0 && step < page.judged.length ? rulesPoints(page.outcome, page.judged)[step] : null;
  }

  inWords({ rule, step, accepted, tokens, past }) {
    const said = `${this.say(`player.name_${rule}`)} · ${this.say("typical.at", { step: step + 1 })}\n${this.say("rules.said", { accepted, tokens })}`;
    return past ? `${said}\n${this.say("rules.mark_past")}` : said;
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
    const mine = this.say("rules.of_run");
    return own ? [name, el("small", null, ` ${mine}`)] : name;
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

const HATCHES = new Map();

/** A pattern of slanted lines in a colour. */
function hatched(pen, colour) {
  if (!HATCHES.has(colour)) {
    const tile = Object.assign(document.createElement("canvas"), { width: 6, height: 6 });
    const line = Object.assign(tile.getContext("2d"), { strokeStyle: colour, lineWidth: 1.3 });
    for (const from of [-6, 0, 6]) stroke(line, [[from, 6], [from + 6, 0]]);
    HATCHES.set(colour, pen.createPattern(tile, "repeat"));
  }
  return HATCHES.get(colour);
}
