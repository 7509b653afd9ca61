/* The candidate tree. Its geometry comes from Python once a step; states, selection and hover are changes of colour and sign. */

const NEAR = 24; // pixels: the pointer is at a node when it is this close

class TreePanel extends Panel {
  constructor(player) {
    super(player, "tree", "computed");
  }

  build() {
    super.build();
    this.wash = svg("path", { class: "sv-wash" });
    this.ring = svg("circle", { class: "sv-ring" });
    this.hoverRing = svg("circle", { class: "sv-ring sv-ring-hover" });
    const [edges, marks, labels] = ["g", "g", "g"].map(() => svg("g"));
    this.edges = new Pool(edges, () => svg("path", { class: "sv-edge" }));
    this.marks = new Pool(marks, makeSign);
    this.labels = new Pool(labels, () => svg("text", { class: "sv-label" }));
    this.picture = svg("svg", { class: "sv-picture", role: "img" }, this.wash, this.ring, this.hoverRing, edges, labels, marks);
    this.host = el("div.sv-chart", null, this.picture);
    this.origins = el("p.sv-lookup", { hidden: true }); // where candidates were copied from
    this.place = el("button.sv-link.sv-source", { type: "button", onclick: () => this.player.text.reveal() });
    this.player.tip(this.place, () => this.say("lookup.reveal"));
    this.body.append(this.origins, el("div.sv-plot", null, this.host));
    this.picture.addEventListener("mousemove", (event) => this.pointed(event));
    this.picture.addEventListener("mouseleave", () => this.pointed(null));
    this.picture.addEventListener("click", (event) => {
      const node = this.nearest(event);
      if (node !== null) this.store.select(node);
    });
  }

  caption() {
    const { tree } = this.store.current.step;
    if (tree.length === 1) return this.say("player.caption_tree_plain");
    return this.say("player.caption_tree", { nodes: tree.length - 1, depth: Math.max(...depthsOf(tree)) });
  }

  update(changed) {
    if (["all", "run", "steps", "step", "rule", "language", "theme", "size"].some((name) => changed.has(name))) this.draw();
    this.light();
    this.tellOrigin();
  }

  /** Where the candidate in focus was copied from, or that the end of the text stands nowhere before. */
  tellOrigin() {
    const { store } = this;
    const { step } = store.current;
    const { header } = store.run;
    setAttr(this.origins, "hidden", step.matches ? null : true);
    if (!step.matches) return;
    const found = matchOf(step, store.focus);
    if (!found) return void setText(this.origins, this.say("lookup.none", { count: header.config.ngram_min }));
    const { places } = this.player.text;
    const side = (from) => sideOf(header, places, from, from + found.length);
    const matched = this.say(side(step.context - found.length) === "template" ? "lookup.matched_template" : "lookup.matched", { length: found.length });
    const where = { place: found.start + 1, where: `@lookup.in_${side(found.start)}`, index: found.index + 1, count: step.matches.length };
    setText(this.place, this.say(step.matches.length > 1 ? "lookup.place_of" : "lookup.place", where));
    this.place.disabled = !["answer", "prompt"].includes(side(found.start)); // elsewhere there is nothing to show
    this.origins.replaceChildren(el("span.sv-matched", null, matched), this.place, el("span.sv-copied", null, this.say("lookup.copied")));
  }

  /** What there is to draw: places in pixels, states and labels of the nodes, the extra token behind them. */
  measure() {
    const { store, host } = this;
    const fig = store.current.figures.tree;
    const nodes = fig.data.find((trace) => trace.meta?.role === "nodes");
    const { wide, high } = sizeOf(host);
    const down = fig.layout.yaxis.range[0] / high;
    const states = store.states(store.step).slice(0, fig.states.length);
    if (fig.extra && !this.extraFits()) states[states.length - 1] = "hidden";
    return { fig, nodes, wide, high, states, x: this.across(fig, nodes, wide), y: nodes.y.map((y) => y / down), size: nodes.textfont.size };
  }

  /** Columns in pixels: the figure's, drawn together where its labels at the right would not fit any more. */
  across(fig, nodes, wide) {
    const scale = wide / fig.layout.xaxis.range[1];
    const first = nodes.x[0] * Math.min(scale, 1);
    const last = Math.max(...nodes.x);
    const tail = Math.min(wide * 0.25, fig.layout.xaxis.range[1] - last); // pixels that the figure leaves for the last labels
    const pitch = last > nodes.x[0] ? (Math.min(last * scale, wide - tail) - first) / (last - nodes.x[0]) : 0;
    return nodes.x.map((x) => first + (x - nodes.x[0]) * pitch);
  }

  /** Under another rule the extra token may hang elsewhere or be another: then the place that the figure has for it stays empty. */
  extraFits() {
    const { store } = this;
    const { step } = store.current;
    const extra = store.extra(store.step);
    return Boolean(extra) && store.judged(store.step).stopped_at === step.stopped_at && extra.token_id === step.emitted[step.emitted.length - 1].token_id;
  }

  draw() {
    const { wide, high } = sizeOf(this.host);
    if (wide < 40 || high < 40) return;
    const drawn = this.measure();
    this.drawn = drawn;
    const { tree } = this.store.current.step;
    this.parents = [...tree.map((node) => node.parent), this.store.current.step.stopped_at];
    this.drawEdges(drawn);
    this.drawNodes(drawn, tree);
    this.picture.setAttribute("aria-label", `${this.say("player.title_tree")}: ${this.caption()}`);
  }

  drawEdges({ states, fig }) {
    const { palette, colours } = this.player;
    const order = states.map((_, i) => i).slice(1).filter((i) => states[i] !== "hidden");
    order.sort((a, b) => Number(DRAWN_OVER.includes(states[a])) - Number(DRAWN_OVER.includes(states[b])));
    this.edges.start();
    for (const i of order) {
      const edge = this.edges.next();
      const sign = palette.states[states[i]];
      const special = DRAWN_OVER.includes(states[i]);
      setAttr(edge, "d", this.curve(i));
      setAttr(edge, "stroke", special ? colours[sign.colour] : colours.edge);
      setAttr(edge, "stroke-width", special ? (sign.width * Math.max(fig.scale, 0.6)).toFixed(1) : 1.2);
      setAttr(edge, "stroke-dasharray", special ? dashes(sign.dash) : null);
    }
    this.edges.rest();
  }

  drawNodes({ nodes, states, x, y, fig, size, wide }, tree) {
    const { palette, colours } = this.player;
    const parents = new Set(this.parents.slice(0, states.length));
    const column = this.columnWidth(x);
    this.marks.start();
    this.labels.start();
    states.forEach((state, i) => {
      if (state === "hidden") return;
      const sign = palette.states[state];
      putSign(this.marks.next(), x[i], y[i], sign, sign.size * fig.scale, colours);
      if (nodes.text[i] === "") return;
      const label = this.labels.next();
      const inner = parents.has(i) && i < tree.length;
      const where = nodes.textposition[i] || "middle right";
      const room = where.includes("right") ? (inner ? column : wide - x[i]) - 14 : where.includes("left") ? x[i] + 2 : column - 4;
      const raw = i < tree.length ? tree[i].text : this.store.extra(this.store.step).text;
      const bold = state === "accepted" || DRAWN_OVER.includes(state);
      setText(label, fitting(shown(raw, 40), Math.max(room, 12), bold ? size * 1.1 : size));
      const reach = (sign.size * fig.scale) / 2 + 4;
      setAttr(label, "x", (x[i] + (where.includes("right") ? reach : where.includes("left") ? -reach : 0)).toFixed(1));
      setAttr(label, "y", (y[i] + (where.includes("top") ? -reach - 2 : where.includes("bottom") ? reach + size - 2 : size * 0.35)).toFixed(1));
      setAttr(label, "text-anchor", where.includes("right") ? "start" : where.includes("left") ? "end" : "middle");
      setAttr(label, "font-size", size);
      setAttr(label, "font-weight", bold ? 600 : null);
      setAttr(label, "fill", colours[sign.text]);
    });
    this.marks.rest();
    this.labels.rest();
  }

  columnWidth(x) {
    const columns = [...new Set(x.map((value) => Math.round(value)))].sort((a, b) => a - b);
    return columns.length > 1 ? columns[1] - columns[0] : sizeOf(this.host).wide / 2;
  }

  /** The S from the parent of a node to the node. */
  curve(i) {
    const { x, y } = this.drawn;
    const parent = this.parents[i];
    const middle = ((x[parent] + x[i]) / 2).toFixed(1);
    return `M${x[parent].toFixed(1)} ${y[parent].toFixed(1)}C${middle} ${y[parent].toFixed(1)} ${middle} ${y[i].toFixed(1)} ${x[i].toFixed(1)} ${y[i].toFixed(1)}`;
  }

  /** Selection, hover and the way to them. */
  light() {
    const { store, drawn } = this;
    if (!drawn) return;
    const last = drawn.x.length - 1;
    const focus = Math.min(store.focus, last);
    const path = [];
    for (let i = focus; i > 0; i = this.parents[i]) path.push(i);
    setAttr(this.wash, "d", path.map((i) => this.curve(i)).join(""));
    setAttr(this.wash, "stroke-width", (9 * Math.max(drawn.fig.scale, 0.6)).toFixed(1));
    this.circle(this.ring, Math.min(store.node, last), true);
    this.circle(this.hoverRing, focus, store.hover !== null && focus !== store.node);
  }

  circle(ring, i, on) {
    setAttr(ring, "visibility", on ? null : "hidden");
    if (!on) return;
    setAttr(ring, "cx", this.drawn.x[i].toFixed(1));
    setAttr(ring, "cy", this.drawn.y[i].toFixed(1));
    setAttr(ring, "r", (Math.max(0.62, this.drawn.fig.scale) * 10).toFixed(1));
  }

  nearest(event) {
    if (!this.drawn) return null;
    const box = this.host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = [NEAR, null];
    this.drawn.states.forEach((state, i) => {
      const away = Math.hypot(this.drawn.x[i] - x, this.drawn.y[i] - y);
      if (state !== "hidden" && away < best[0]) best = [away, i];
    });
    return best[1];
  }

  /** The numbers of the node under the pointer, in the box that all explanations use. */
  pointed(event) {
    const node = event && this.nearest(event);
    this.store.point(node);
    if (node === null) return void this.player.tooltip.hide();
    const box = this.host.getBoundingClientRect();
    this.player.tooltip.at(box.left + this.drawn.x[node], box.top + this.drawn.y[node], this.numbers(node));
  }

  numbers(node) {
    const { store } = this;
    const { step } = store.current;
    const state = this.say(`state.${this.drawn.states[node]}`);
    if (node === step.tree.length) return `${shown(store.extra(store.step).text)}\n${state}`;
    const { text, q, p } = step.tree[node];
    if (!node) return `${shown(text)}\n${state}`;
    return `${shown(text)}\nq = ${number(q)}\np = ${store.substep === "propose" ? "?" : number(p)}\n${state}`;
  }

  rows() {
    const { store } = this;
    const { tree } = store.current.step;
    const states = store.states(store.step);
    const depth = depthsOf(tree);
    return tree.map((node, index) => ({
      index, token: shown(node.text), parent: index ? node.parent : null, depth: depth[index], q: node.q, state: states[index],
      p: store.substep === "propose" ? null : node.p, pointed: index, now: index === store.node,
    }));
  }
}

const DRAWN_OVER = ["accepted", "refused", "recovered", "bonus", "plain"]; // states whose edges have a look of their own

/** A dash of plotly ("solid", "dash", "4px,3px") as SVG writes it. */
function dashes(dash) {
  return dash.includes("px") ? dash.replace(/px/g, "").replace(/,/g, " ") : { dash: "5 4", dot: "1.5 3" }[dash] ?? null;
}
