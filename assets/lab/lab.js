/* The tree lab: one tree on show, and everything that is said of it. */

/**
 * new TreeLab(element, {locales, palette, language, plotly, server, page}). `server` offers grow, arrange, judge and pace; `page` offers
 * run() → the run on show in the player, and decode(method, choices), which runs it there.
 */
class TreeLab extends LabState {
  constructor(element, given) {
    super(given);
    Object.assign(this, { live: null, recorded: null, pace: null }); // what passes take, and which of the two goes with the accuracies
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

  /** Every time: heads may have been trained meanwhile, and passes measured in the player. */
  show(on) {
    super.show(on);
    if (!on) return;
    this.grow();
    this.measurePace();
    this.invalidate();
  }

  label() {
    super.label();
    this.help.label();
  }

  // ---- sources ------------------------------------------------------------------------------------------------------------------

  choose(source, pair = this.pair) {
    Object.assign(this, { source, pair });
    this.grow();
  }

  assume(change) {
    this.set({ profile: { ...this.profile, ...change } });
    clearTimeout(this.later);
    this.later = setTimeout(() => this.grow(), 40);
  }

  /** Ask for the tree of the source; where its accuracies are those that are there already, the tree on show stays as it is. */
  async grow() {
    const asked = (this.asked = (this.asked || 0) + 1);
    const { source, pair, profile } = this;
    const grown = await this.call("grow", { source, pair, profile });
    if (asked !== this.asked) return; // another source was chosen meanwhile
    if (grown.error) return void (await this.notGrown(grown.error));
    const same = JSON.stringify([grown.source, grown.accuracies]) === JSON.stringify([this.grown?.source, this.grown?.accuracies]);
    this.grown = { ...grown, id: same ? this.grown.id : asked };
    if (same) return void this.invalidate();
    this.judged = null;
    this.fastestOf();
    if (this.size === null) return void this.changed();
    this.toSize(Math.min(this.size, this.horizon, grown.order.length), false);
  }

  /** Heads that are gone make way for the shipped ones; else the source stays what it was. */
  async notGrown(error) {
    if (error.key === "lab.heads_gone") {
      this.pair = SHIPPED_PAIR;
      await this.grow();
    } else if (this.grown) ({ name: this.source, pair: this.pair } = this.grown.source);
    this.set({ message: { ...error, kind: "refused" } });
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

  /** What passes take: measured for the recorded run, and for the run on show, if it is Medusa's and was decoded here. */
  async measurePace() {
    this.recorded ||= await this.call("pace", { trace: null });
    const run = this.runOnShow();
    const live = run?.live && run.done && run.header?.config.method === "medusa" && run.header.timings && run.steps.length;
    if (!live || this.live?.id !== run.id) this.timed(null);
    if (!live || this.live) return;
    const measured = await this.call("pace", { trace: traceText(run, 12) });
    if (run === this.runOnShow()) this.timed({ ...measured, id: run.id }); // else another came on show meanwhile
  }

  timed(live) {
    this.live = live;
    this.fastestOf();
    this.invalidate();
  }

  /** Whether the accuracies are those of what a run (as the server tells of it) was made with. */
  isOf(run) {
    return Boolean(this.grown && run) && this.grown.source.identity === run.identity;
  }

  /**
   * Tokens a second of the trees that grow, as far as the passes were measured, and the size that has the most. Only passes of the very
   * same heads go with measured accuracies; assumed ones are nobody's and go with any.
   */
  fastestOf() {
    const assumed = this.grown?.source.name === "assumed";
    this.pace = [this.live, this.recorded].find((one) => one?.model && (assumed || this.isOf(one.run))) ?? null;
    this.rates = this.pace && this.grown ? ratesOf(this.pace.model, this.grown.expected) : [];
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
    const { source, pair, tree, size, horizon, node, expected, choices, judged, refused, message, widths, playing, fastest } = this;
    return { source, pair, count: tree.length, tree, size, horizon, node, expected, choices, judged, refused, message, widths, playing, fastest, ready: Boolean(this.grown && this.plotly) };
  }
}
