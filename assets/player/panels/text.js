/* The text that the run writes, token by token, marked by kind; above it what is shown (recorded or live), below it what it came to. */

const KINDS = ["accepted", "recovered", "bonus", "plain"];
const LINE = 30; // pixels of a line of the text (player.css)
const PROMPT_SHOWN = 240; // characters of a long prompt that stand before the text; the rest opens on demand

class TextPanel {
  constructor(player) {
    this.player = player;
    this.store = player.store;
    this.visible = true;
    this.spans = []; // one list a step
    this.looked = []; // [class, span] of what was looked up
    this.ranges = [];
    this.wholePrompt = false;
    this.build();
  }

  say(key, args) {
    return this.player.words.say(key, args);
  }

  build() {
    this.prompt = el("span.sv-prompt");
    this.more = el("button.sv-link", { type: "button", hidden: true, onclick: () => this.unfold() });
    this.stream = el("span.sv-stream");
    this.cursor = el("span.sv-cursor", { "aria-hidden": "true" });
    this.blank = el("p.sv-invite");
    this.flow = el("div.sv-flow", { dir: "auto", tabindex: 0, role: "region" }, this.prompt, this.more, this.stream, this.cursor);
    this.badges = el("div.sv-badges");
    this.legend = el("div.sv-legend");
    this.sums = el("div.sv-sums");
    this.side = el("div.sv-side", null, this.badges, this.legend, this.sums);
    this.root = el("section.sv-card.sv-text", { id: "text" }, this.flow, this.blank, this.side);
    this.stream.addEventListener("click", (event) => this.clicked(event.target));
    this.stream.addEventListener("mouseover", (event) => this.hovered(event.target));
    this.stream.addEventListener("mouseleave", () => this.store.point(null));
  }

  unfold() {
    this.wholePrompt = !this.wholePrompt;
    this.showPrompt();
  }

  /** Where the shown part of the prompt begins, in characters. */
  get folded() {
    const { prompt } = this.store.run.header;
    return this.wholePrompt ? 0 : Math.max(0, prompt.length - PROMPT_SHOWN);
  }

  place(target) {
    const span = target.closest?.(".sv-token");
    return span ? { step: Number(span.dataset.step), node: span.dataset.node === "" ? null : Number(span.dataset.node) } : null;
  }

  clicked(target) {
    const place = this.place(target);
    if (!place) return;
    this.store.seek(place.step, "commit");
    this.store.select(place.node ?? this.store.steps[place.step].step.tree.length);
  }

  hovered(target) {
    const place = this.place(target);
    const here = place && place.step === this.store.step && this.store.substep === "commit";
    this.store.point(here ? place.node ?? this.store.current.step.tree.length : null);
  }

  refresh(changed) {
    const has = (...names) => changed.has("all") || names.some((name) => changed.has(name));
    if (has("run", "language")) this.label();
    if (changed.has("run")) this.begin();
    if (has("run", "language", "steps", "status")) this.showPrompt();
    if (has("steps", "rule", "run")) this.write(changed.has("rule"));
    if (has("step", "steps", "rule", "run")) this.mark();
    if (has("node", "hover", "step", "rule")) this.light();
    if (has("node", "hover", "step", "rule", "run")) this.lookUp();
    if (has("steps", "run", "language", "rule", "status")) this.sum();
  }

  label() {
    this.flow.setAttribute("aria-label", this.say("player.title_text"));
    const entries = KINDS.map((kind) => {
      const entry = el(`span.sv-key.sv-k-${kind}`, null, this.say(`state.${kind}`));
      this.player.tip(entry, () => this.say(`player.means_${kind}`));
      return entry;
    });
    this.legend.replaceChildren(...entries);
  }

  /** Another run. */
  begin() {
    this.restart();
    this.ranges = [];
    this.places = this.store.run?.header ? promptPlaces(this.store.run.header) : null;
  }

  restart() {
    this.spans = [];
    this.rangesKey = null; // what was looked up is to be marked afresh
    this.stream.replaceChildren();
    this.wholePrompt = false;
  }

  showPrompt() {
    const { header } = this.store.run || {};
    setAttr(this.flow, "hidden", header ? null : true);
    setAttr(this.side, "hidden", header ? null : true);
    setAttr(this.blank, "hidden", header ? true : null);
    const { status, incoming } = this.store;
    if (!header) return void setText(this.blank, status ? this.say(status.key, status.args) : this.say(incoming ? "player.waiting" : "player.empty"));
    this.writePrompt(header.prompt);
    setAttr(this.more, "hidden", header.prompt.length > PROMPT_SHOWN ? null : true);
    setText(this.more, this.say(this.wholePrompt ? "player.prompt_less" : "player.prompt_more", { characters: header.prompt.length }));
  }

  /** The prompt, in one piece or, where something in it was looked up, in marked ones. */
  writePrompt(prompt) {
    const { folded } = this;
    const ranges = inPrompt(this.ranges, this.places).filter(([, , to]) => to > folded);
    if (!ranges.length) return void setText(this.prompt, (folded ? "…" : "") + prompt.slice(folded) + "\u2003");
    const cuts = [...new Set([folded, prompt.length, ...ranges.flatMap(([, from, to]) => [Math.max(from, folded), to])])].sort((a, b) => a - b);
    const pieces = cuts.slice(1).map((to, i) => {
      const names = ranges.filter(([, first, last]) => first < to && last > cuts[i]).map(([name]) => name);
      return names.length ? el(`span.${names.join(".")}`, null, prompt.slice(cuts[i], to)) : prompt.slice(cuts[i], to);
    });
    this.prompt.replaceChildren(folded ? "…" : "", ...pieces, "\u2003");
  }

  /** Mark what was looked up for the candidate in focus: the text's last tokens, where they stood before, and what followed there. */
  lookUp() {
    const { store } = this;
    const view = store.current;
    const found = view && store.comparable(store.step) ? matchOf(view.step, store.focus) : null;
    const ranges = found ? rangesOf(view.step, found) : [];
    const key = JSON.stringify(ranges);
    if (!view || key === this.rangesKey) return;
    Object.assign(this, { ranges, rangesKey: key });
    for (const [name, span] of this.looked) span.classList.remove(name);
    const tokens = this.spans.flat();
    const first = store.run.header.prompt_ids.length;
    this.looked = ranges.flatMap(([name, from, to]) => tokens.slice(Math.max(from - first, 0), Math.max(to - first, 0)).map((span) => [name, span]));
    for (const [name, span] of this.looked) span.classList.add(name);
    this.writePrompt(store.run.header.prompt);
  }

  /** Bring the place that was copied from into view, out of the folded part of the prompt, too. */
  reveal() {
    if (this.folded && inPrompt(this.ranges, this.places).some(([name, from]) => name === "sv-source" && from < this.folded)) this.unfold();
    const at = this.flow.querySelector(".sv-source");
    if (at) this.flow.scrollTop = Math.max(0, at.offsetTop - LINE / 4);
  }

  /** Add the tokens of new steps; a changed rule also rewrites the step whose outcome it changes. */
  write(again) {
    if (again) this.restart();
    const fragment = document.createDocumentFragment();
    for (let i = this.spans.length; i < this.store.steps.length; i += 1) {
      const spans = this.store.judged(i).tokens.map((token) => this.token(token, i));
      this.spans.push(spans);
      fragment.append(...spans);
    }
    this.stream.append(fragment);
    this.shownAt = null; // every token is to be marked afresh
  }

  token(token, step) {
    const span = el(`span.sv-token.sv-k-${token.kind}`, { "data-step": step, "data-node": token.node ?? "" });
    span.textContent = token.text;
    if (token.text === "") span.classList.add("sv-part");
    if (token.text.includes("\n")) span.classList.add("sv-break");
    return span;
  }

  /** Show the text as it stood: everything of earlier steps, and of this one what its sub-step has committed. */
  mark() {
    const { store } = this;
    const before = this.shownAt ?? 0;
    const [low, high] = this.shownAt === null ? [0, this.spans.length - 1] : [Math.min(before, store.step), Math.max(before, store.step)];
    const ends = store.step + (store.substep === "commit" ? 1 : 0);
    for (let i = Math.max(low, 0); i <= high && i < this.spans.length; i += 1) {
      for (const span of this.spans[i]) {
        setFlag(span, "sv-later", i >= ends);
        setFlag(span, "sv-now", i === store.step);
        setFlag(span, "sv-differs", i === store.differs);
        setFlag(span, "sv-void", !store.comparable(i));
      }
    }
    this.shownAt = store.step;
    const last = this.spans[ends - 1]?.at(-1);
    if (last) last.after(this.cursor);
    else this.stream.prepend(this.cursor);
    setFlag(this.cursor, "sv-waiting", store.run && store.run.live && !store.run.done);
    this.moved = true;
  }

  /** Bring the line that is written into view; asks for the layout, so it comes after all drawing. */
  settle() {
    if (!this.moved) return;
    this.moved = false;
    const bottom = this.cursor.offsetTop + 25; // of the line that the cursor stands in
    const view = this.flow.clientHeight;
    if (bottom - LINE < this.flow.scrollTop || bottom > this.flow.scrollTop + view) this.flow.scrollTop = Math.max(0, bottom - view);
  }

  light() {
    const { store } = this;
    if (this.lit) this.lit.forEach((span) => span.classList.remove("sv-lit"));
    this.lit = [];
    const step = store.current?.step;
    if (!step) return;
    const path = new Set(lineage(step.tree, store.focus, store.judged(store.step).stopped_at));
    for (const span of this.spans[store.step] || []) {
      const node = span.dataset.node === "" ? step.tree.length : Number(span.dataset.node);
      if (path.has(node)) this.lit.push(span);
    }
    this.lit.forEach((span) => span.classList.add("sv-lit"));
  }

  // ---- what it came to ----------------------------------------------------------------------------------------------------------

  sum() {
    const { run } = this.store;
    this.badges.replaceChildren(...this.badgeList());
    this.sums.replaceChildren();
    if (!run?.header || !run.steps.length) return;
    const totals = runTotals(run);
    const rate = el("span.sv-sum", null, el("b", null, number(totals.tokensPerStep, 2)), ` ${this.say("player.tokens_per_step")}`);
    this.player.tip(rate, () => this.say("player.tokens_per_step_tip", { tokens: totals.tokens, steps: run.steps.length }));
    this.sums.append(rate);
    if (totals.speedup === null) return;
    const speed = el("span.sv-sum", null, el("b", null, `${number(totals.speedup, 2)}×`), ` ${this.say("player.against_plain")}`);
    this.player.tip(speed, () => this.say("player.speedup_tip", { ours: milliseconds(totals.perToken), plain: milliseconds(totals.plain) }));
    this.sums.append(speed);
  }

  badgeList() {
    const { run, recordedRule: rule, status } = this.store;
    if (!run?.header) return [];
    const { header } = run;
    const badges = status ? [el("span.sv-badge.sv-badge-live", null, this.say(status.key, status.args))] : [];
    const engine = this.player.words.has(`player.engine_${header.engine}`) ? [`player.engine_${header.engine}`, `player.engine_${header.engine}_means`] : null;
    const [name, means] = engine ? engine.map((key) => this.say(key)) : [header.engine, ""];
    const place = { date: day(header.created), device: header.device.toUpperCase(), dtype: header.dtype, engine: name, engine_means: means };
    badges.push(this.badge(run.recorded ? "recorded" : run.done ? "decoded" : "live", place));
    if (rule.temperature === 0) badges.push(this.badge("temperature_zero"));
    else if (this.store.rule.rule === "typical") badges.push(this.changes());
    if (run.ended) badges.push(this.badge(`ended_${run.ended}`));
    return badges;
  }

  /** That typical acceptance changes the distribution, and by how much in the steps that it decides; a button that leads to the panel. */
  changes() {
    const { store, player } = this;
    const counted = store.steps.filter((_, i) => store.comparable(i)).map(({ step }, i) => emittedKl(step, store.judged(i), store.rule));
    const kl = addKl(counted);
    const known = klPerToken(kl) !== null;
    const said = this.say(known ? "player.badge_typical_kl" : "player.badge_typical", klArgs(kl));
    const panel = player.lower.find((one) => one.name === "typical");
    const badge = el("button.sv-badge.sv-badge-typical", { type: "button", onclick: () => player.explained.enterPanel(panel) }, said);
    this.player.tip(badge, () => this.say("player.badge_typical_tip"));
    return badge;
  }

  badge(name, args) {
    const badge = el(`span.sv-badge.sv-badge-${name}`, null, this.say(`player.badge_${name}`, args));
    if (this.player.words.has(`player.badge_${name}_tip`)) this.player.tip(badge, () => this.say(`player.badge_${name}_tip`, args));
    return badge;
  }
}

/** Tokens a step, and the measured time a token beside that of plain decoding in the same run (null without a baseline). */
function runTotals(run) {
  let tokens = 0;
  let seconds = 0;
  for (const { step } of run.steps) {
    tokens += step.emitted.length;
    seconds += step.seconds.propose + step.seconds.verify + step.seconds.commit;
  }
  const plain = median(run.header.baseline?.seconds || []);
  const perToken = seconds / tokens;
  return { tokens, tokensPerStep: tokens / run.steps.length, perToken, plain, speedup: plain === null ? null : plain / perToken };
}

function median(values) {
  if (!values.length) return null;
  const ordered = [...values].sort((a, b) => a - b);
  const middle = ordered.length >> 1;
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}
