/* What is on show: the run, the step, the sub-step, the node. Panels read it and never write it; every change names what it touched, and
   the player draws once a frame. */

const SUBSTEPS = ["propose", "verify", "commit"];

/** Everything the panels draw from; `change(...names)` is told what changed ("run", "steps", "step", "node", "hover", …). */
class Store {
  constructor(change, server) {
    this.change = change;
    this.server = server || {};
    this.clear();
  }

  clear() {
    Object.assign(this, {
      run: null, step: -1, substep: "commit", node: 0, picked: false, hover: null, playing: false, follow: true, incoming: null,
      whatIf: null, rejudged: null, tried: null, guesses: new Map(), status: null, error: null, notice: null,
    });
  }

  // ---- what arrives -------------------------------------------------------------------------------------------------------------

  /** Take a whole run (run_view of specviz/figures/view.py). */
  open(view, telling = false) {
    this.clear();
    this.run = {
      id: view.id ?? null, recorded: view.recorded !== false, live: false, header: view.header, figures: view.figures, tables: view.tables || {},
      points: view.points || {}, steps: [], done: true, ended: view.ended ?? null, seq: Infinity, waiting: new Map(), gap: false,
    };
    this.take(view.steps || []);
    this.step = this.run.steps.length ? (telling ? this.tellingStep() : 0) : -1;
    this.autoselect();
    this.change("run", "steps", "step");
  }

  /** An early step in which something was accepted and something refused: the one to show to somebody who knows nothing yet. */
  tellingStep() {
    const tells = ({ step }) => step.stopped_at > 0 && step.emitted[step.emitted.length - 1].kind === "recovered" && step.emitted.length > 2;
    return Math.max(0, this.steps.findIndex((view, i) => i > 1 && tells(view)));
  }

  /** Take one message of a live run; a message that was seen before is ignored (the stream repeats its last one). */
  message(message) {
    if (!message || typeof message !== "object") return;
    if (message.seq === undefined && Array.isArray(message.steps) && message.header?.config) return void this.open(message);
    if (message.run === undefined || message.run === null) return;
    const target = this.target(message);
    if (message.seq !== undefined) {
      if (message.seq <= target.seq) return;
      if (message.seq > target.seq + 1) target.gap = true;
      target.seq = message.seq;
    }
    if (message.header) this.begin(target, message.header);
    this.status = message.status ?? (message.steps || message.done || message.error ? null : this.status);
    if (message.error) Object.assign(this, { error: message.error, incoming: null });
    if (this.run?.id !== message.run) return void this.change("status"); // nothing to show of it yet: what is on show stays
    if (message.steps) this.take(message.steps);
    if (this.run.gap && this.run.waiting.size) this.missed(this.run);
    if (message.done || message.error) this.finish(message.done);
    this.change("steps", "status");
  }

  /** The run that a message belongs to: the one on show, or a new one, which takes its place as soon as its header is there. */
  target(message) {
    if (this.run && this.run.id === message.run) return this.run;
    if (this.incoming?.id !== message.run) {
      this.incoming = { id: message.run, seq: -1, gap: false };
      Object.assign(this, { error: null, notice: null });
    }
    return this.incoming;
  }

  begin(target, view) {
    const fresh = this.run !== target;
    if (fresh) this.clear();
    this.run = Object.assign(fresh ? { steps: [], waiting: new Map(), ...target } : target, {
      recorded: false, live: true, done: false, ended: null, header: view.header, figures: view.figures, tables: view.tables || {}, points: view.points || {},
    });
    this.change("run", "step");
  }

  finish(done) {
    this.run.done = true;
    this.run.ended = done?.ended ?? null;
    if (this.run.waiting.size) this.notice = { key: "player.gap" };
  }

  /** Append steps in order; those behind a gap wait until the missing ones are there. */
  take(views) {
    const run = this.run;
    for (const view of views) run.waiting.set(view.step.index, view);
    const before = run.steps.length;
    while (run.waiting.has(run.steps.length)) {
      const next = run.steps.length;
      run.steps.push(run.waiting.get(next));
      run.waiting.delete(next);
    }
    for (const index of run.waiting.keys()) if (index < run.steps.length) run.waiting.delete(index); // sent twice
    if (run.steps.length === before) return;
    if (this.whatIf) this.judgeAgain();
    if (run.live && this.follow) this.show(run.steps.length - 1);
  }

  /** A message was lost. The server may send the run once more; without it the run is shown as far as it is whole. */
  missed(run) {
    if (!this.server.resend || run.asked === run.steps.length) return;
    run.asked = run.steps.length; // once for each gap
    Promise.resolve(this.server.resend({ run: run.id, from: run.steps.length })).then((views) => {
      if (this.run !== run || !Array.isArray(views)) return;
      this.take(views);
      run.gap = run.waiting.size > 0;
      if (!run.gap && this.notice?.key === "player.gap") this.notice = null;
      this.change("steps");
    }, () => {});
  }

  // ---- where we are -------------------------------------------------------------------------------------------------------------

  get steps() {
    return this.run ? this.run.steps : [];
  }

  get current() {
    return this.steps[this.step] || null;
  }

  /** Go to a step (clamped). Scrubbing back lets go of the live end, the last step takes hold of it again. */
  seek(index, substep = this.substep) {
    if (!this.steps.length) return;
    const target = clamp(Math.trunc(Number(index) || 0), 0, this.steps.length - 1);
    this.follow = target === this.steps.length - 1;
    if (target === this.step && substep === this.substep) return;
    this.substep = substep;
    this.show(target);
  }

  show(index) {
    this.step = index;
    this.picked = false;
    this.hover = null;
    if (this.run.live && this.follow && !this.run.done) this.substep = "commit";
    this.autoselect();
    this.change("step");
  }

  toSubstep(name) {
    if (!SUBSTEPS.includes(name) || name === this.substep || !this.current) return;
    this.substep = name;
    if (!this.picked) this.autoselect();
    this.change("step");
  }

  /** One sub-step forward or back, over the edges of steps. */
  walk(by) {
    if (!this.current) return;
    const at = this.step * 3 + SUBSTEPS.indexOf(this.substep) + by;
    if (at < 0 || at >= this.steps.length * 3) return;
    const step = Math.floor(at / 3);
    if (step === this.step) this.toSubstep(SUBSTEPS[at % 3]);
    else this.seek(step, SUBSTEPS[at % 3]);
  }

  /** The node that tells most: where the path stopped. Before the target has spoken, simply the first candidate. */
  autoselect() {
    const step = this.current?.step;
    if (!step) return void (this.node = 0);
    if (step.tree.length === 1) return void (this.node = 0);
    if (this.substep === "propose") return void (this.node = 1);
    const { verdicts, stopped_at } = this.judged(this.step);
    const refused = verdicts.findIndex((verdict, i) => verdict === "refused" && step.tree[i].parent === stopped_at);
    this.node = refused > 0 ? refused : stopped_at || 1;
  }

  /** Select node i; i = the number of nodes stands for the token that no candidate proposed. */
  select(node) {
    const step = this.current?.step;
    const target = node === null || node === "" ? NaN : Number(node);
    if (!step || !Number.isInteger(target) || target < 0 || target > step.tree.length) return;
    if (target === step.tree.length && !(this.substep === "commit" && this.extra(this.step))) return;
    this.picked = true;
    if (target === this.node) return;
    this.node = target;
    this.change("node");
  }

  selectNext(by) {
    const step = this.current?.step;
    if (step) this.select(clamp(Math.min(this.node, step.tree.length - 1) + by, 0, step.tree.length - 1));
  }

  point(node) {
    if (node === this.hover) return;
    this.hover = node;
    this.change("hover");
  }

  get focus() {
    return this.hover ?? this.node;
  }

  followLive() {
    this.follow = true;
    if (this.steps.length) this.show(this.steps.length - 1);
  }

  // ---- how it is judged ---------------------------------------------------------------------------------------------------------

  get recordedRule() {
    const config = this.run?.header?.config;
    return config ? { rule: config.rule, epsilon: config.epsilon, delta: config.delta, temperature: config.temperature } : null;
  }

  get rule() {
    return this.whatIf || this.recordedRule;
  }

  /** Judge every recorded step under another rule, ε or δ; the recorded ones take it back. */
  rejudge(change) {
    const recorded = this.recordedRule;
    if (!recorded || !change) return;
    const next = { ...(this.whatIf || recorded) };
    if (["greedy", "rejection", "match", "typical"].includes(change.rule)) next.rule = change.rule;
    for (const name of ["epsilon", "delta"]) if (Number.isFinite(change[name]) && change[name] >= 0) next[name] = change[name];
    this.whatIf = sameRule(next, recorded) ? null : next;
    if (next.rule === "typical") this.tried = { epsilon: next.epsilon, delta: next.delta };
    this.judgeAgain();
    if (!this.picked) this.autoselect();
    this.change("rule", "step");
  }

  /** ε and δ of typical acceptance where it is looked at: the run's own, or those that are tried, whatever rule is in force. */
  get bar() {
    const { epsilon, delta } = this.tried || this.recordedRule;
    return { epsilon, delta };
  }

  /** Try another ε or δ, for the rule in force too where that is the typical one. */
  tryBar(change) {
    this.tried = { ...this.bar, ...change };
    if (decidingRule(this.rule) === "typical") this.rejudge(this.tried);
    else this.change("bar");
  }

  judgeAgain() {
    this.rejudged = this.whatIf ? rejudge(this.steps.map((view) => view.step), this.whatIf, this.run.header.eos_ids) : null;
  }

  /** First step whose outcome would differ under the rule that is tried, or -1. */
  get differs() {
    return this.rejudged ? this.rejudged.differs : -1;
  }

  comparable(index) {
    return this.differs < 0 || index <= this.differs;
  }

  /** {verdicts, stopped_at, tokens: [{token_id, text, kind, node}]} of a step under the rule in force. */
  judged(index) {
    const step = this.steps[index].step;
    if (!this.rejudged || !this.comparable(index)) {
      return { verdicts: step.tree.map((node) => node.verdict), stopped_at: step.stopped_at, tokens: step.emitted };
    }
    const { verdicts, stopped_at } = this.rejudged.judgements[index];
    const tokens = this.rejudged.tokens[index].map((token, i) => ({ ...token, text: textOf(step, token, i) }));
    return { verdicts, stopped_at, tokens };
  }

  /** The token of a step that no candidate proposed, or undefined where the run was cut before it. */
  extra(index) {
    return this.judged(index).tokens.find((token) => token.node === null || token.node === undefined);
  }

  /** States of the points of the tree, the extra token last: what the sub-step lets one see. */
  states(index, substep = this.substep) {
    const { verdicts } = this.judged(index);
    const extra = this.extra(index);
    if (substep === "propose") return [...verdicts.map((_, i) => (i ? "pending" : "root")), "hidden"];
    return [...verdicts, substep === "commit" && extra ? extra.kind : "hidden"];
  }

  guess(node, yes) {
    this.guesses.set(`${this.step}/${node}`, yes);
    this.change("guess");
  }
}

function sameRule(a, b) {
  if (a.temperature === 0) return true; // only the argmax decides, whatever the rule is called
  const typical = a.rule === "typical";
  return a.rule === b.rule && (!typical || (a.epsilon === b.epsilon && a.delta === b.delta));
}

/** The text of a token that another rule would commit: as it was emitted where it was, else from the names of the step's tokens. */
function textOf(step, token, i) {
  const same = step.emitted[i];
  if (same && same.token_id === token.token_id) return same.text;
  if (token.node !== null) return step.tree[token.node].text;
  return step.texts[token.token_id] ?? `#${token.token_id}`;
}

/** The node and its ancestors, root first; the extra token's ancestors end at the node after which it was drawn. */
function lineage(tree, node, stoppedAt) {
  const path = [];
  for (let at = node === tree.length ? stoppedAt : node; at >= 0; at = tree[at].parent) path.unshift(at);
  return node === tree.length ? [...path, node] : path;
}
