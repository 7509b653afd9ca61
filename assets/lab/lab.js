/* The tree lab: one tree on show, and everything that is said of it. */

/**
 * new TreeLab(element, {locales, palette, language, plotly, server, page}). `server` offers grow, arrange, judge and pace; `page` offers
 * run() → the run on show in the player, and decode(method, choices), which runs it there.
 */
class TreeLab extends LabState {
  constructor(element, given) {
    super(given);
    Object.assign(this, { pace: null, recorded: null });
    this.cards = [
      new TreeCard(this, "tree", "computed"), new CurveCard(this, "curve", "computed"), new LabMaskCard(this, "mask", "computed"),
      new CartesianCard(this, "cartesian", "computed"), new TrialCard(this, "trial", "computed"), new ExchangeCard(this, "exchange"),
    ];
    this.help = new LabHelp(this);
    this.build(element, [new SourceStrip(this), ...this.cards], this.help.dialog);
  }

  keys(card) {
    return { title: `lab.title_${card}`, caption: `lab.caption_${card}`, origin: `lab.origin_${card}` };
  }

  /** The first time everything is asked for; every time, what the player measured meanwhile. */
  show(on) {
    super.show(on);
    if (!on) return;
    if (!this.asked) this.grow();
    this.measurePace();
    this.invalidate();
  }

  label() {
    super.label();
    this.help.label();
  }

  // ---- sources ------------------------------------------------------------------------------------------------------------------

  choose(source) {
    this.source = source;
    this.grow();
  }

  assume(change) {
    this.set({ profile: { ...this.profile, ...change } });
    clearTimeout(this.later);
    this.later = setTimeout(() => this.grow(), 40);
  }

  async grow() {
    const asked = (this.asked = (this.asked || 0) + 1);
    const grown = await this.ask("grow", { source: this.source, profile: this.profile });
    if (asked !== this.asked) return; // another source was chosen meanwhile
    if (!grown) {
      if (this.grown) this.source = this.grown.source.name;
      return void this.invalidate();
    }
    this.grown = { ...grown, id: asked };
    this.judged = null;
    this.fastestOf();
    if (this.size === null) return void this.changed();
    this.toSize(Math.min(this.size, this.horizon, grown.order.length), false);
  }

  // ---- runs ---------------------------------------------------------------------------------------------------------------------

  runOnShow() {
    return this.page.run();
  }

  async judge(which) {
    this.set({ judging: true, judged: null, refused: null });
    const tree = this.choices;
    const answer = await this.call("judge", { tree, trace: which === "shown" ? traceText(this.runOnShow()) : null });
    this.judging = false;
    if (tree === this.choices) this.set(answer.error ? { refused: answer.error } : { judged: answer });
    this.invalidate();
  }

  decode() {
    this.play(false);
    this.page.decode(this.method, this.choices);
  }

  /** What passes take: measured for the run on show, if it is Medusa's and was decoded here, else for the recorded run. */
  async measurePace() {
    const run = this.runOnShow();
    const live = Boolean(run?.live && run.done && run.header?.config.method === "medusa" && run.header.timings && run.steps.length);
    const key = live ? run.id : "recorded";
    if (this.pace?.key === key) return;
    this.recorded ||= await this.call("pace", { trace: null });
    const answer = live ? await this.call("pace", { trace: traceText(run, 12) }) : this.recorded;
    this.pace = { key, live, model: answer.model ?? null, device: answer.run?.device ?? "" };
    this.fastestOf();
    this.invalidate();
  }

  /** Tokens a second of the trees that grow, as far as the passes were measured, and the size that has the most. */
  fastestOf() {
    const model = ["medusa", "assumed"].includes(this.source) ? this.pace?.model : null;
    this.rates = model && this.grown ? ratesOf(model, this.grown.expected) : [];
    this.fastest = bestOf(this.rates, "rate");
  }

  // ---- the server ---------------------------------------------------------------------------------------------------------------

  /** The answer to a question, or {error: {key, args}}. */
  async call(name, asked) {
    try {
      return (await this.server[name](asked)) || { error: { key: "lab.unexpected" } };
    } catch {
      return { error: { key: "lab.no_server" } };
    }
  }

  /** The answer; where it is a refusal, it is said under the tree, and null. */
  async ask(name, asked) {
    const answer = await this.call(name, asked);
    if (!answer.error) return answer;
    this.set({ message: { ...answer.error, kind: "refused" } });
    return null;
  }

  /** What tests and other parts of the page read. */
  state() {
    const { source, tree, size, horizon, node, expected, choices, judged, refused, message, widths, playing, fastest } = this;
    return { source, count: tree.length, tree, size, horizon, node, expected, choices, judged, refused, message, widths, playing, fastest, ready: Boolean(this.grown && this.plotly) };
  }
}
