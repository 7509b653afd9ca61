/* The tree on show, and what can be done with it: growing, changing, walking. Nothing here draws, but for asking that it be done. */

const MOST = 256; // candidates of a tree (specviz/config.py)
const SHIPPED_PAIR = "embedded"; // specviz/ui/tabs/lab.py
const TICK = 140; // milliseconds between two candidates of a growing tree

/** A subclass gives ask(name, asked) and call(name, asked): see lab.js. */
class LabState extends Tab {
  constructor(given) {
    super("lab", given);
    this.source = "medusa";
    this.pair = SHIPPED_PAIR; // whose Medusa heads are meant
    this.profile = { heads: 4, first: 0.5, by_head: 0.7, by_rank: 0.5 };
    this.widths = [8, 8, 8, 8]; // of the tree of all combinations
    Object.assign(this, { horizon: 64, size: 64, tree: [], rows: new Map(), lastRow: 0, node: 0, hover: null, before: [] });
    Object.assign(this, { grown: null, rates: [], fastest: null, judged: null, refused: null, message: null, playing: false, judging: false });
    this.derive();
  }

  // ---- what follows from the tree -----------------------------------------------------------------------------------------------

  /** Everything that is computed from the tree and the accuracies, once a change. */
  derive() {
    const accuracies = this.grown?.accuracies || [];
    this.parents = parentsOf(this.tree);
    this.chances = this.tree.map((path) => chanceOf(path, accuracies));
    this.expected = expectedOf(this.tree, accuracies);
    this.best = this.tree.length < MOST ? bestNext(this.tree, accuracies) : null;
    this.choices = choicesText(this.tree);
    this.node = Math.min(this.node, this.tree.length);
    this.hover = null;
  }

  get heads() {
    return this.grown?.accuracies.length || 4;
  }

  get deepest() {
    return Math.max(1, ...this.grown.order.slice(0, this.horizon).map((path) => path.length));
  }

  /** The sparse tree that stands beside all combinations. */
  get sparse() {
    return this.grown.order.slice(0, 64);
  }

  get focus() {
    return Math.min(this.hover ?? this.node, this.tree.length);
  }

  get method() {
    return this.source === "assumed" ? "medusa" : this.source;
  }

  indexOf(path) {
    return path.length ? 1 + this.tree.findIndex((other) => keyOf(other) === keyOf(path)) : 0;
  }

  // ---- growth -------------------------------------------------------------------------------------------------------------------

  /** Show the first `size` candidates of the growing tree, each where it stands in the largest one. */
  toSize(size, byHand = true) {
    if (byHand && this.playing) this.play(false);
    if (this.size === null) this.remember();
    const rows = this.grown.rows[this.horizon];
    const order = this.grown.order.slice(0, this.horizon);
    this.size = clamp(size, 0, order.length);
    this.place(sortedShape(order.slice(0, this.size)), [[], ...order], rows);
  }

  reach(horizon) {
    const whole = this.size === null || this.size === this.horizon;
    this.horizon = horizon;
    this.toSize(whole ? horizon : Math.min(this.size, horizon));
  }

  play(on) {
    clearInterval(this.ticking);
    this.playing = on;
    const last = Math.min(this.horizon, this.grown.order.length);
    if (on) {
      if (this.size === null || this.size >= last) this.toSize(0, false);
      this.ticking = setInterval(() => {
        this.toSize(this.size + 1, false);
        if (this.size >= last) this.play(false);
      }, this.horizon > 64 ? TICK / 4 : TICK);
    }
    this.invalidate();
  }

  /** A tree and the rows of its nodes. */
  place(tree, paths, rows) {
    const kept = this.node ? this.tree[this.node - 1] : [];
    this.tree = tree;
    this.rows = new Map(paths.map((path, i) => [keyOf(path), rows[i]]));
    this.lastRow = Math.max(...rows);
    this.node = kept?.length ? Math.max(0, this.indexOf(kept)) : 0;
    this.judged = this.refused = this.message = null;
    this.changed();
  }

  changed() {
    this.derive();
    this.invalidate();
  }

  // ---- editing ------------------------------------------------------------------------------------------------------------------

  /** The next child and the next sibling of the selected node; null where there is none. */
  offers() {
    const keys = new Set(this.tree.map(keyOf));
    const path = this.node ? this.tree[this.node - 1] : [];
    const full = this.tree.length >= MOST;
    return [full || path.length >= this.heads ? null : nextChild(keys, path), full || !path.length ? null : nextChild(keys, path.slice(0, -1))];
  }

  /** One change after the other: the next begins with what the one before it left. */
  inTurn(change) {
    this.turn = (this.turn || Promise.resolve()).catch(() => {}).then(change); // what failed before does not hold up the rest
    return this.turn;
  }

  /** Add the next child (0) or the next sibling (1) of the selected node. */
  addOffer(which) {
    return this.inTurn(() => this.withNode(this.offers()[which]));
  }

  addNode(path) {
    return this.inTurn(() => this.withNode(path));
  }

  removeNode() {
    return this.inTurn(() => this.withoutNode());
  }

  async withNode(path) {
    if (!path) return;
    const { shape, refused } = withNode(this.tree, path, this.heads);
    if (refused) return void this.set({ message: { ...refused, kind: "refused" } });
    await this.edit(shape, path, { key: "lab.added", args: { path: textOf(path) } });
  }

  async withoutNode() {
    if (!this.node) return void this.set({ message: { key: "lab.root_stays", kind: "refused" } });
    const path = this.tree[this.node - 1];
    const { shape, gone } = withoutNode(this.tree, path);
    await this.edit(shape, path.slice(0, -1), { key: gone ? "lab.removed_below" : "lab.removed", args: { path: textOf(path), below: gone } });
  }

  /** Show a changed tree as soon as it has its places; where it is refused, everything stays. */
  async edit(shape, select, message) {
    this.play(false);
    const placed = shape.length ? await this.ask("arrange", { tree: choicesText(shape), heads: this.heads }) : { choices: [], rows: [0] };
    if (!placed) return;
    this.remember();
    this.size = null;
    this.place(placed.choices, [[], ...placed.choices], placed.rows);
    this.node = Math.max(0, this.indexOf(select));
    this.set({ message: { ...message, kind: "done" } });
  }

  /** Read a tree that somebody wrote; returns the sentence {key, args} that refuses it. */
  async read(text) {
    const placed = await this.call("arrange", { tree: text, heads: this.heads });
    if (placed.error) return placed.error;
    this.play(false);
    this.remember();
    this.size = null;
    this.place(placed.choices, [[], ...placed.choices], placed.rows);
    return null;
  }

  takeFull() {
    const shape = fullShape(this.widths);
    return this.inTurn(() => this.edit(shape, [], { key: "lab.taken", args: { count: shape.length } }));
  }

  combine({ heads, all, depth, value }) {
    const { widths } = this;
    if (heads) this.set({ widths: Array.from({ length: heads }, (_, i) => widths[i] ?? widths.at(-1)) });
    else if (all) this.set({ widths: widths.map(() => all) });
    else this.set({ widths: widths.map((width, i) => (i === depth ? value : width)) });
  }

  remember() {
    const { tree, rows, lastRow, size, node } = this;
    this.before = [...this.before.slice(-99), { tree, rows, lastRow, size, node }];
  }

  undo() {
    const last = this.before.at(-1);
    if (!last) return;
    Object.assign(this, last, { before: this.before.slice(0, -1), judged: null, refused: null, message: { key: "lab.undone", kind: "done" } });
    this.changed();
  }

  // ---- selection ----------------------------------------------------------------------------------------------------------------

  select(node) {
    this.set({ node, message: null });
  }

  point(node) {
    if (node !== this.hover) this.set({ hover: node });
  }

  /** The node above, below, before or behind the selected one, as it is drawn. */
  move(where) {
    const { parents, node } = this;
    const depths = lineages(parents).map((cells) => cells.length);
    const row = (i) => this.rows.get(i ? keyOf(this.tree[i - 1]) : "") ?? 0;
    const level = parents.map((_, i) => i).filter((i) => depths[i] === depths[node]).sort((a, b) => row(a) - row(b));
    const found = {
      parent: () => parents[node],
      child: () => parents.findIndex((parent) => parent === node),
      up: () => level[level.indexOf(node) - 1] ?? -1,
      down: () => level[level.indexOf(node) + 1] ?? -1,
    }[where]();
    if (found >= 0) this.select(found);
  }
}
