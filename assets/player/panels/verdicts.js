/* Every candidate with its numbers and the arithmetic of its verdict, in this step's own numbers. */

const AT_ONCE = 12; // rows that a panel can show at most
const TOKEN_ARGS = ["token", "argmax", "drawn", "sibling"]; // arguments that are texts of tokens

class VerdictsPanel extends Panel {
  constructor(player) {
    super(player, "verdicts", "computed");
    this.lag = SLOW;
  }

  build() {
    super.build();
    this.toggle.remove(); // it is a table already
    this.head.classList.remove("sv-buttoned");
    this.guess = el("div.sv-guess", { hidden: true });
    this.headRow = el("tr");
    this.bodies = [el("tbody"), el("tbody")]; // what one sees at once, and what follows when the movement rests
    this.table = el("table.sv-table.sv-verdicts", null, el("thead", null, this.headRow), this.bodies);
    this.scroll = el("div.sv-scroll", { tabindex: 0, role: "region" }, this.table);
    this.body.append(this.guess, this.scroll);
    this.pool = [];
    this.table.addEventListener("click", (event) => this.at(event, (node) => this.store.select(node)));
    this.table.addEventListener("mouseover", (event) => this.at(event, (node) => this.store.point(node)));
    this.table.addEventListener("mouseleave", () => this.store.point(null));
    this.scroll.addEventListener("scroll", () => this.later && this.fillRest());
  }

  at(event, tell) {
    const row = event.target.closest("tbody tr");
    if (row) tell(Number(row.dataset.node));
  }

  label() {
    super.label();
    this.scroll.setAttribute("aria-label", this.say("player.title_verdicts"));
    this.headRow.replaceChildren(...["#", "token", "depth", "q", "p", "numbers", "verdict"].map((name) => (
      el(`th.sv-c-${name === "#" ? "node" : name}`, { scope: "col" }, name === "#" ? "#" : this.say(`player.column_${name}`))
    )));
  }

  caption() {
    const rule = decidingRule(this.store.rule);
    return this.store.current.step.tree.length === 1 ? this.say("player.caption_verdicts_plain") : this.say(`player.rule_${rule}`);
  }

  update(changed) {
    const redraw = ["all", "run", "steps", "step", "rule", "language"].some((name) => changed.has(name));
    if (redraw) this.fillRows();
    if (redraw || changed.has("guess") || changed.has("node")) this.ask();
    if (redraw || changed.has("node") || changed.has("hover")) this.light(changed);
  }

  /** The nodes in the order in which the step decided them: tested ones down the path, the extra token, then the rest. */
  order() {
    const { store } = this;
    const { step } = store.current;
    const { verdicts } = store.judged(store.step);
    const states = store.states(store.step);
    const all = step.tree.map((_, i) => i).slice(1);
    if (store.substep === "propose") return all;
    const tested = all.filter((i) => verdicts[i] === "accepted" || verdicts[i] === "refused");
    const depth = depthsOf(step.tree);
    tested.sort((a, b) => depth[a] - depth[b] || a - b);
    const extra = states[states.length - 1] === "hidden" ? [] : [step.tree.length];
    return [...tested, ...extra, ...all.filter((i) => verdicts[i] === "untested")];
  }

  /** Rows below the fold would cost most of a step's layout, so they wait until nothing moves. */
  fillRows() {
    const { store } = this;
    this.now = {
      step: store.current.step, judged: store.judged(store.step), how: store.comparable(store.step) ? store.rule : store.recordedRule,
      depth: depthsOf(store.current.step.tree), states: store.states(store.step), order: this.order(),
    };
    setFlag(this.table, "sv-void", !store.comparable(store.step));
    this.fill(0, Math.min(AT_ONCE, this.now.order.length));
    clearTimeout(this.later);
    this.bodies[1].hidden = true;
    this.later = setTimeout(() => this.fillRest(), 120);
  }

  fillRest() {
    clearTimeout(this.later);
    this.later = null;
    this.fill(AT_ONCE, this.now.order.length);
    this.bodies[1].hidden = false;
    this.light(new Set(["node"]));
    this.settle();
  }

  fill(from, to) {
    const { step, judged, how, depth, states, order } = this.now;
    for (let i = from; i < to; i += 1) {
      const node = order[i];
      const row = (this.pool[i] ||= this.newRow());
      this.put(row, node, node === step.tree.length ? this.extraRow(step, judged, how, states) : this.nodeRow(step, judged, how, node, depth[node], states[node]));
      if (!row.tr.isConnected) this.bodies[i < AT_ONCE ? 0 : 1].append(row.tr);
    }
    const end = to === order.length ? this.pool.length : Math.min(AT_ONCE, this.pool.length);
    for (let i = to; i < end; i += 1) this.pool[i].tr.remove();
  }

  newRow() {
    const cells = ["node", "token", "depth", "q", "p", "numbers", "verdict"].map((name) => el(`td.sv-c-${name}`));
    cells[1].append(el("bdi"));
    cells[5].append(el("span"), el("span.sv-thus"));
    cells[6].append(el("span.sv-sign", { "aria-hidden": "true" }), el("span"));
    return { tr: el("tr", null, cells), cells };
  }

  put(row, node, content) {
    row.tr.dataset.node = node;
    if (row.tr.dataset.state !== content.state) row.tr.dataset.state = content.state;
    setText(row.cells[0], content.node);
    setText(row.cells[1].firstChild, content.token);
    setText(row.cells[2], content.depth);
    setText(row.cells[3], content.q);
    setText(row.cells[4], content.p);
    const arrow = content.numbers.lastIndexOf(" → "); // "… → accepted": the last column says it again
    setText(row.cells[5].firstChild, arrow < 0 ? content.numbers : content.numbers.slice(0, arrow));
    setText(row.cells[5].lastChild, arrow < 0 ? "" : content.numbers.slice(arrow));
    setText(row.cells[6].firstChild, this.player.palette.states[content.state]?.letter ?? "");
    setText(row.cells[6].lastChild, this.say(`state.${content.state}`));
  }

  nodeRow(step, judged, how, node, depth, state) {
    const { token_id: id, text, q, p } = step.tree[node];
    const early = this.store.substep === "propose";
    const why = early ? null : explain(step, judged, how, node);
    const numbers = early ? "?" : this.sentence(why);
    return { state, node: String(node), token: shown(text || `#${id}`, 18), depth: String(depth), q: probability(q), p: early ? "?" : probability(p), numbers };
  }

  extraRow(step, judged, how, states) {
    const token = judged.tokens[judged.tokens.length - 1];
    const row = step.rows[judged.stopped_at];
    return {
      state: states[states.length - 1], node: "–", token: shown(token.text || `#${token.token_id}`, 18), depth: String(depthsOf(step.tree)[judged.stopped_at] + 1),
      q: "–", p: probability(entry(row, row.p, token.token_id)), numbers: this.sentence(explainExtra(step, judged, how)),
    };
  }

  /** A node's row as one sentence, for those who hear the page. */
  inWords(node) {
    if (!this.now || this.emptyKey()) return "";
    const { step, judged, how, depth, states } = this.now;
    if (!node) return shown(step.tree[0].text);
    const { token, numbers, state } = node === step.tree.length ? this.extraRow(step, judged, how, states) : this.nodeRow(step, judged, how, node, depth[node], states[node]);
    return `${token}: ${this.say(`state.${state}`)}. ${numbers}`;
  }

  sentence({ key, args }) {
    const readable = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, TOKEN_ARGS.includes(name) ? literal(shown(value, 18)) : value]));
    return this.say(key, readable);
  }

  light(changed) {
    const { store } = this;
    const { step } = store.current;
    const path = new Set(lineage(step.tree, Math.min(store.focus, step.tree.length), store.judged(store.step).stopped_at));
    for (const { tr } of this.pool) {
      if (!tr.isConnected) continue;
      const node = Number(tr.dataset.node);
      setFlag(tr, "sv-selected", node === store.node);
      setFlag(tr, "sv-hover", node === store.hover);
      setFlag(tr, "sv-lit", node !== store.focus && path.has(node));
      setAttr(tr, "aria-current", node === store.node ? "true" : null);
      if (node === store.node && !changed.has("hover")) this.wanted = tr;
    }
  }

  /** Scroll the table, never the page, until the row is in sight. */
  settle() {
    const tr = this.wanted;
    this.wanted = null;
    if (!tr?.isConnected) return;
    const top = tr.offsetTop - this.headRow.offsetHeight;
    const bottom = tr.offsetTop + tr.offsetHeight - this.scroll.clientHeight;
    if (this.scroll.scrollTop > top) this.scroll.scrollTop = top;
    else if (this.scroll.scrollTop < bottom) this.scroll.scrollTop = bottom;
  }

  // ---- predict, then see --------------------------------------------------------------------------------------------------------

  /** In "propose": will the selected candidate be accepted? Afterwards: what was said, and what came. */
  ask() {
    const { store } = this;
    const { step } = store.current;
    const node = store.node;
    const said = store.guesses.get(`${store.step}/${node}`);
    const early = store.substep === "propose" && node > 0 && node < step.tree.length;
    const late = store.substep !== "propose" && said !== undefined && node < step.tree.length;
    setAttr(this.guess, "hidden", early || late ? null : true);
    if (early) this.guess.replaceChildren(el("span", null, this.say("player.guess", { token: literal(shown(step.tree[node].text, 16)) })),
      ...[true, false].map((yes) => this.choice(node, yes, said)));
    else if (late) this.guess.replaceChildren(el("span", null, this.outcome(said, store.judged(store.step).verdicts[node], step.tree[node].text)));
  }

  choice(node, yes, said) {
    return el("button.sv-chip", { type: "button", "aria-pressed": String(said === yes), onclick: () => this.store.guess(node, yes) }, this.say(yes ? "player.guess_yes" : "player.guess_no"));
  }

  outcome(said, verdict, text) {
    const right = said === (verdict === "accepted");
    return this.say(right ? "player.guess_right" : "player.guess_wrong", { token: literal(shown(text, 16)), verdict: this.say(`state.${verdict}`) });
  }
}

function depthsOf(tree) {
  const depths = [];
  tree.forEach((node, i) => depths.push(i ? depths[node.parent] + 1 : 0));
  return depths;
}
