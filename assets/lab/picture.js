/* The picture of the tree: nodes at the rows that Python placed, what can be added at the selected one, and what is under the pointer. */

const LAB_NEAR = 16; // pixels: the pointer is at a node when it is this close
const LAB_PITCH = [6.5, 34]; // least and most pixels between two rows
const LAB_MARGIN = { left: 22, right: 84, top: 20 };
const GHOST = 11; // pixels of a ghost above or below the selected node

class TreePicture {
  /** `inWords(node)` is what is said of a node under the pointer. */
  constructor(lab, inWords) {
    this.lab = lab;
    this.inWords = inWords;
    this.offered = [];
    this.ring = svg("circle", { class: "sv-ring" });
    const [edges, marks, labels, ghosts] = ["g", "g", "g", "g"].map(() => svg("g"));
    this.edges = new Pool(edges, () => svg("path", { class: "sv-edge" }));
    this.marks = new Pool(marks, () => svg("circle", { class: "sv-lab-node" }));
    this.labels = new Pool(labels, () => svg("text", { class: "sv-label" }));
    this.ghosts = new Pool(ghosts, () => svg("circle", { class: "sv-lab-ghost" }));
    this.ghostEdges = new Pool(ghosts, () => svg("path", { class: "sv-lab-ghost" }));
    this.ghostLabels = new Pool(ghosts, () => svg("text", { class: "sv-label sv-lab-ghost-label" }));
    this.picture = svg("svg", { class: "sv-lab-svg", "aria-hidden": "true" }, edges, this.ring, marks, labels, ghosts);
    this.host = el("div.sv-lab-picture", { tabindex: 0, role: "application", "aria-describedby": "lab-told" }, this.picture);
    this.host.addEventListener("mousemove", (event) => this.pointed(event));
    this.host.addEventListener("mouseleave", () => this.pointed(null));
    this.host.addEventListener("click", (event) => this.clicked(event));
    this.host.addEventListener("dblclick", () => lab.removeNode());
    this.host.addEventListener("focus", () => lab.invalidate());
    watchSize(this.host, () => lab.invalidate());
  }

  /** Pixels of every node: {x, y, room, column}; columns leave room for what can be added behind the deepest node. */
  measure() {
    const { lab } = this;
    const { wide, high } = sizeOf(this.host);
    const depths = [0, ...lab.tree.map((path) => path.length)];
    const deepest = lab.size === null ? Math.min(Math.max(...depths) + 1, lab.heads) : lab.deepest;
    const rows = [lab.rows.get("") ?? 0, ...lab.tree.map((path) => lab.rows.get(keyOf(path)) ?? 0)];
    const last = Math.max(lab.lastRow, 0.001);
    const pitch = clamp((high - 2 * LAB_MARGIN.top) / last, ...LAB_PITCH);
    const tall = Math.max(high, Math.ceil(pitch * last) + 2 * LAB_MARGIN.top);
    const top = (tall - pitch * last) / 2;
    const column = Math.min((wide - LAB_MARGIN.left - LAB_MARGIN.right) / Math.max(deepest, 1), 240);
    const [x, y] = [depths.map((depth) => LAB_MARGIN.left + column * depth), rows.map((row) => top + pitch * row)];
    return { wide, tall, column, x, y, room: roomOf(depths, y) };
  }

  draw() {
    const drawn = this.measure();
    if (drawn.wide < 40) return;
    this.drawn = drawn;
    const { lab } = this;
    const parents = lab.parents;
    setAttr(this.picture, "width", drawn.wide);
    setAttr(this.picture, "height", drawn.tall);
    const chances = [1, ...lab.chances];
    const focus = lab.focus;
    const path = new Set(lineages(parents)[focus] || [0]);
    this.edges.start();
    for (let i = 1; i < parents.length; i += 1) {
      const edge = this.edges.next();
      setAttr(edge, "d", this.curve(drawn.x[parents[i]], drawn.y[parents[i]], drawn.x[i], drawn.y[i]));
      setAttr(edge, "stroke", lab.colours[path.has(i) ? "accent" : "edge"]);
      setAttr(edge, "stroke-width", (1 + 3 * Math.sqrt(chances[i] ?? 0)).toFixed(1));
    }
    this.edges.rest();
    this.drawNodes(drawn, chances, path);
    this.drawGhosts(drawn);
    const ring = this.radius(chances[lab.node], drawn.room[lab.node]) + 4;
    for (const [name, value] of [["cx", drawn.x[lab.node]], ["cy", drawn.y[lab.node]], ["r", ring]]) setAttr(this.ring, name, value.toFixed(1));
    this.follow(drawn);
  }

  /** Scroll to the selected node where it went out of sight. */
  follow({ y, tall }) {
    const key = `${this.lab.node}/${tall}`;
    const { high } = sizeOf(this.host);
    if (key === this.followed) return;
    this.followed = key;
    const at = y[this.lab.node] - this.host.scrollTop;
    if (at < 12 || at > high - 12) this.host.scrollTop = y[this.lab.node] - high / 2;
  }

  drawNodes({ x, y, room, column }, chances, path) {
    const { lab } = this;
    const { colours } = lab;
    const inner = new Set(lab.parents);
    this.marks.start();
    this.labels.start();
    chances.forEach((chance, i) => {
      const mark = this.marks.next();
      const judged = i > 0 && lab.judged?.accepted[textOf(lab.tree[i - 1])];
      setAttr(mark, "cx", x[i].toFixed(1));
      setAttr(mark, "cy", y[i].toFixed(1));
      setAttr(mark, "r", this.radius(chance, room[i]).toFixed(1));
      setAttr(mark, "fill", i === 0 ? colours.root : chance === null ? colours.card : judged ? colours.accepted : colours.p);
      setAttr(mark, "stroke", chance === null ? colours.soft : "none");
      setAttr(mark, "stroke-dasharray", chance === null ? "2 2" : null);
      const over = inner.has(i) || i === lab.node; // an edge leaves to the right
      if (!i || (room[i] < (over ? 26 : 13) && !path.has(i))) return;
      const label = this.labels.next();
      const rank = String(lab.tree[i - 1].at(-1));
      const reach = this.radius(chance, room[i]) + 4;
      setText(label, judged ? `${rank} ✓` : rank);
      setAttr(label, "x", (x[i] + (over ? 0 : reach)).toFixed(1));
      setAttr(label, "y", (y[i] + (over ? -reach : 3.8)).toFixed(1));
      setAttr(label, "text-anchor", over ? "middle" : "start");
      setAttr(label, "font-size", column < 60 ? 9.5 : 11);
      setAttr(label, "fill", colours[path.has(i) ? "ink" : "soft"]);
    });
    this.marks.rest();
    this.labels.rest();
  }

  /** What can be added at the selected node, dashed: its next child above the line, its next sibling below it. */
  drawGhosts({ x, y, column }) {
    const { lab } = this;
    this.ghosts.start();
    this.ghostEdges.start();
    this.ghostLabels.start();
    this.offered = [];
    lab.offers().forEach((path, i) => {
      if (!path) return;
      const from = lab.indexOf(path.slice(0, -1));
      const [gx, gy] = [x[lab.node] + Math.min(column * 0.45, 46), y[lab.node] + (i ? GHOST : -GHOST)];
      this.offered.push({ path, x: gx, y: gy });
      setAttr(this.ghostEdges.next(), "d", this.curve(x[from], y[from], gx, gy));
      const ghost = this.ghosts.next();
      for (const [name, value] of [["cx", gx], ["cy", gy], ["r", 6]]) setAttr(ghost, name, typeof value === "number" ? value.toFixed(1) : value);
      const label = this.ghostLabels.next();
      const chance = chanceOf(path, lab.grown.accuracies);
      setText(label, `+ ${textOf(path)}${chance === null ? "" : ` +${number(chance, 2)}`}`);
      setAttr(label, "x", (gx + 10).toFixed(1));
      setAttr(label, "y", (gy + 3.8).toFixed(1));
      setAttr(label, "font-size", 11);
      setAttr(label, "fill", lab.colours.accent);
    });
    for (const pool of [this.ghosts, this.ghostEdges, this.ghostLabels]) pool.rest();
  }

  /** The larger, the higher the value, as far as there is room; never so small that it cannot be seen. */
  radius(chance, room) {
    return clamp(2 + 8 * Math.sqrt(chance ?? 0), 2.2, clamp(room * 0.46, 2.6, 8));
  }

  curve(x0, y0, x1, y1) {
    const middle = ((x0 + x1) / 2).toFixed(1);
    return `M${x0.toFixed(1)} ${y0.toFixed(1)}C${middle} ${y0.toFixed(1)} ${middle} ${y1.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
  }

  /** {ghost} or {node} under the pointer, or nothing. */
  under(event) {
    if (!this.drawn) return {};
    const box = this.picture.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const ghost = this.offered.find(({ x, y }) => Math.hypot(x - px, y - py) < 9);
    if (ghost) return { ghost };
    let best = [LAB_NEAR, undefined];
    this.drawn.x.forEach((x, i) => {
      const away = Math.hypot(x - px, this.drawn.y[i] - py);
      if (away < best[0]) best = [away, i];
    });
    return { node: best[1] };
  }

  pointed(event) {
    const { node } = event ? this.under(event) : {};
    this.lab.point(node ?? null);
    if (node === undefined) return void this.lab.tooltip.hide();
    const box = this.picture.getBoundingClientRect();
    this.lab.tooltip.at(box.left + this.drawn.x[node], box.top + this.drawn.y[node], this.inWords(node));
  }

  clicked(event) {
    const { ghost, node } = this.under(event);
    if (ghost) this.lab.addNode(ghost.path);
    else if (node !== undefined) this.lab.select(node);
  }
}

/** Pixels from every node to the nearest one of its depth, or LAB_PITCH's most. */
function roomOf(depths, y) {
  const room = y.map(() => LAB_PITCH[1]);
  const last = new Map();
  const down = y.map((_, i) => i).sort((a, b) => y[a] - y[b]);
  for (const i of down) {
    const above = last.get(depths[i]);
    last.set(depths[i], i);
    if (above === undefined) continue;
    for (const node of [above, i]) room[node] = Math.min(room[node], y[i] - y[above]);
  }
  return room;
}
