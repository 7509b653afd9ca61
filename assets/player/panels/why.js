/* Why it is slow, or fast, here: what a step costs against what its tokens are worth, the causes with their milliseconds, what would change it. */

const COSTS = ["drafting", "verifying", "overhead"]; // of a step, beyond the time of one plain token
const WORTH_SHOWN = 2.2; // a bar of what might have been is cut where it is longer than so many times the others

class WhyPanel extends Panel {
  constructor(player) {
    super(player, "why", "measured");
  }

  build() {
    super.build();
    this.said = el("p.sv-why-said");
    this.notes = el("div.sv-why-notes");
    this.bars = el("div.sv-why-bars");
    this.lostTitle = el("h3.sv-why-title");
    this.causes = el("ol.sv-why-causes");
    this.changeTitle = el("h3.sv-why-title");
    this.changes = el("ul.sv-why-changes");
    this.body.append(el("div.sv-why", null, this.said, this.notes, this.bars, el("div", null, this.lostTitle, this.causes), el("div.sv-why-remedies", null, this.changeTitle, this.changes)));
  }

  emptyKey() {
    const { run, steps } = this.store;
    return run?.header ? silenceOf(steps.map(({ step }) => step), run.header) : "player.empty_why";
  }

  caption() {
    return this.store.whatIf ? this.say("player.caption_why_whatif") : "";
  }

  label() {
    super.label();
    setText(this.changeTitle, `${this.say("player.why_change")} · ${this.say("player.tag_computed")}`);
    this.drawn = null;
  }

  refresh(changed, atLeisure) {
    super.refresh(changed, atLeisure);
    setText(this.title, this.say(this.found ? `player.title_why_${paceOf(this.found)}` : "player.title_why"));
  }

  /** What the parts are of, or null; the same object until a step is added. */
  get found() {
    const { run } = this.store;
    if (!run?.header) return null;
    if (this.of !== run || this.count !== run.steps.length) {
      const steps = run.steps.map(({ step }) => step);
      Object.assign(this, { of: run, count: steps.length, why: whyOf(steps, run.header), steps });
    }
    return this.why;
  }

  update() {
    const found = this.found;
    if (this.drawn === found) return;
    this.drawn = found;
    const pace = paceOf(found);
    setText(this.said, this.sentence(headlineOf(found)));
    setAttr(this.said, "data-pace", pace);
    this.notes.replaceChildren(...notesOf(found).map((note) => el("p", null, this.sentence(note))));
    this.bars.replaceChildren(...this.ledger(found));
    setText(this.lostTitle, this.say(pace === "slower" ? "player.why_lost" : "player.why_held"));
    this.causes.replaceChildren(...causesOf(found).map((cause) => this.cause(cause)));
    this.changes.replaceChildren(...remediesOf(found, this.steps, this.of.header).map((remedy) => el("li", null, this.sentence(remedy))));
  }

  sentence({ key, args }) {
    return this.say(key, args);
  }

  cause({ name, seconds, share, why }) {
    const figures = this.say("player.why_cause", { ms: inMs(seconds), share: number(100 * share, 2) });
    return el("li", { "data-cause": name }, el(`i.sv-part.sv-part-${name}`, { "aria-hidden": "true" }), el("b", null, this.say(`slow.${name}`)), el("span.sv-why-figures", null, figures), el("p", null, this.sentence(why)));
  }

  /** What a step costs, what its tokens are worth, and what they would have been worth: bars on one scale of milliseconds. */
  ledger(found) {
    const worth = found.tokens * found.plain;
    const ideal = found.full + found.plain;
    const scale = Math.max(found.step, worth, Math.min(ideal, WORTH_SHOWN * Math.max(found.step, worth)));
    const one = found.plain + Math.min(0, found.verifying) + Math.min(0, found.overhead);
    const costs = COSTS.map((name) => [name, Math.max(0, found[name])]);
    const bar = (key, args, total, parts) => el("div.sv-why-bar", null, el("span", null, this.say(key, args)), el("b", null, this.say("player.why_ms", { ms: inMs(total) })), this.strip(parts, scale, total > scale));
    return [
      bar("player.why_costs", {}, found.step, [["one", one], ...costs]),
      bar("player.why_worth", { tokens: number(found.tokens) }, worth, [["one", found.plain], ["credit", found.credit]]),
      bar("player.why_ideal", { tokens: number(ideal / found.plain) }, ideal, [["ideal", ideal]]),
      el("p.sv-marks", null, ["one", ...COSTS, "credit"].map((name) => el(`span.sv-part-mark.sv-part-${name}`, null, this.say(`slow.${name}`)))),
    ];
  }

  strip(parts, scale, cut) {
    const wide = (seconds) => 100 * Math.min(1, seconds / scale);
    const shown = parts.filter(([, seconds]) => seconds > 0);
    const pieces = shown.map(([name, seconds]) => el(`i.sv-part-${name}`, { style: `width: ${wide(seconds).toFixed(3)}%`, "data-part": name }, wide(seconds) > 13 && name !== "ideal" ? inMs(seconds) : ""));
    return el("div.sv-why-strip", { "aria-hidden": "true", class: `sv-why-strip${cut ? " sv-why-cut" : ""}` }, pieces);
  }

  rows() {
    const found = this.found;
    const worth = found.tokens * found.plain;
    const shares = Object.fromEntries(causesOf(found).map(({ name, share }) => [name, share]));
    const parts = { one: found.plain, drafting: found.drafting, verifying: found.verifying, overhead: found.overhead, step: found.step, worth, gain: found.gain, refused: found.refused, cut: found.cut, ideal: found.full + found.plain };
    return Object.entries(parts).map(([part, seconds]) => ({ part, ms: 1000 * seconds, share: shares[part] ?? null }));
  }
}
