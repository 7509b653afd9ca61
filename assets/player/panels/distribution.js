/* p against q where the focused node was judged: after its parent, with its own bar marked. */

const LABELS = 84; // pixels at the left for the tokens
const AXIS = 18; // pixels at the bottom for the numbers

class DistributionPanel extends Panel {
  constructor(player) {
    super(player, "distribution", "computed");
    this.lag = SLOW;
  }

  build() {
    super.build();
    this.line = el("p.sv-foot");
    this.legend = el("div.sv-marks");
    const hatch = svg("pattern", { id: "sv-hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("line", { x1: 0, y1: 0, x2: 0, y2: 5, class: "sv-hatch-line" }));
    const [grid, bars, signs, labels] = ["g", "g", "g", "g"].map(() => svg("g"));
    this.grid = new Pool(grid, () => svg("line", { class: "sv-gridline" }));
    this.numbers = new Pool(grid, () => svg("text", { class: "sv-tick", "text-anchor": "middle" }));
    this.rects = new Pool(bars, () => svg("rect", { rx: 1.5 }));
    this.signs = new Pool(signs, makeSign);
    this.labels = new Pool(labels, () => svg("text", { class: "sv-label", "text-anchor": "end" }));
    this.bar = svg("line", { class: "sv-threshold" });
    this.band = svg("rect", { class: "sv-band", rx: 4 });
    this.picture = svg("svg", { class: "sv-picture", role: "img" }, svg("defs", null, hatch), this.band, grid, bars, this.bar, labels, signs);
    this.host = el("div.sv-chart", null, this.picture);
    this.plot = el("div.sv-plot", null, this.host);
    this.body.append(this.line, this.plot, this.legend);
    this.picture.addEventListener("mousemove", (event) => this.store.point(this.nodeAt(event)));
    this.picture.addEventListener("mouseleave", () => this.store.point(null));
    this.picture.addEventListener("click", (event) => {
      const node = this.nodeAt(event);
      if (node !== null) this.store.select(node);
    });
  }

  /** The node whose row is shown: the parent of the one in focus (the root shows what follows itself). */
  get at() {
    const { store } = this;
    const { tree } = store.current.step;
    if (store.focus >= tree.length) return store.judged(store.step).stopped_at;
    return store.focus ? tree[store.focus].parent : 0;
  }

  get patch() {
    return this.store.current.figures.distribution.nodes[this.at];
  }

  emptyKey() {
    if (!this.store.current) return "player.empty_distribution";
    const { step } = this.store.current;
    return step.tree.length === 1 && this.store.substep === "propose" ? "player.nothing_proposed" : null;
  }

  caption() {
    const { step } = this.store.current;
    return this.say("player.caption_distribution", { token: literal(shown(step.tree[this.at].text, 16)) });
  }

  /** The bar of the node in focus, or -1. */
  marked() {
    const { tree } = this.store.current.step;
    return this.store.focus >= tree.length ? this.patch.extra : this.patch.children.indexOf(this.store.focus);
  }

  /** The lengths of one kind of bars, none while the sub-step hides them. */
  bars(role) {
    const { store, patch } = this;
    if (role === "p" && store.substep === "propose") return [];
    if (role === "residual" && store.substep !== "commit") return [];
    return patch.x[["residual", "p", "q"].indexOf(role)] || [];
  }

  /** The typical threshold under the ε and δ in force, or null. */
  threshold() {
    const { rule } = this.store;
    if (decidingRule(rule) !== "typical" || this.store.substep === "propose") return null;
    return threshold(rule.epsilon, rule.delta, this.store.current.step.rows[this.at].entropy);
  }

  update(changed) {
    const moved = ["all", "run", "steps", "step", "rule", "language", "theme", "size"].some((name) => changed.has(name));
    const key = `${this.at}/${this.marked()}`;
    if (!moved && key === this.key) return;
    this.key = key;
    this.beside();
    this.draw();
  }

  /** The headline and the legend. */
  beside() {
    const { patch } = this;
    const line = this.threshold();
    const args = { entropy: number(patch.entropy), threshold: line === null ? "" : number(line, 2) };
    const hidden = this.store.substep === "propose";
    setText(this.line, hidden ? this.say("player.line_hidden") : this.say(line === null ? "player.line_entropy" : "player.line_threshold", args));
    const names = ["p", "q", "residual"].filter((role) => this.bars(role).length);
    const key = `${names}/${line === null}/${this.words.language}`;
    if (key === this.legendKey) return;
    this.legendKey = key;
    const entries = names.map((role) => el(`span${role === "residual" ? ".sv-hatch" : ""}`, { style: `--mark: var(--sv-${role})` }, this.say(`distribution.${role}`)));
    if (line !== null) entries.push(el("span.sv-dash", { style: "--mark: var(--sv-refused)" }, this.say("player.mark_threshold")));
    this.legend.replaceChildren(...entries);
  }

  draw() {
    const { wide, high } = sizeOf(this.host);
    if (wide < 120 || high < 60) return;
    const { patch } = this;
    const count = patch.labels.length;
    const top = patch.top * 1.1;
    const x = (value) => LABELS + (value / top) * (wide - LABELS - 8);
    const pitch = (high - AXIS) / count;
    this.place = { pitch, count };
    this.drawAxis(x, top, high - AXIS);
    this.drawBars(x, pitch);
    this.drawLabels(x, pitch, patch, count);
    const line = this.threshold();
    setAttr(this.bar, "visibility", line === null || line > top ? "hidden" : null);
    if (line !== null) for (const [name, value] of [["x1", x(line)], ["x2", x(line)], ["y1", 0], ["y2", high - AXIS]]) setAttr(this.bar, name, value.toFixed(1));
    const marked = this.marked();
    setAttr(this.band, "visibility", marked < 0 ? "hidden" : null);
    for (const [name, value] of [["x", 0], ["y", marked * pitch], ["width", wide], ["height", pitch]]) setAttr(this.band, name, Math.max(0, value).toFixed(1));
    this.picture.setAttribute("aria-label", `${this.say("player.title_distribution")} ${this.caption()}`);
  }

  drawAxis(x, top, bottom) {
    this.grid.start();
    this.numbers.start();
    for (const tick of ticks(top, 3.5)) {
      const line = this.grid.next();
      for (const [name, value] of [["x1", x(tick)], ["x2", x(tick)], ["y1", 0], ["y2", bottom]]) setAttr(line, name, value.toFixed(1));
      const text = this.numbers.next();
      setText(text, number(tick));
      setAttr(text, "x", x(tick).toFixed(1));
      setAttr(text, "y", (bottom + 13).toFixed(1));
    }
    this.grid.rest();
    this.numbers.rest();
  }

  drawBars(x, pitch) {
    const { colours } = this.player;
    const marked = this.marked();
    this.rects.start();
    for (const [role, from, size] of BARS) {
      this.bars(role).forEach((value, bar) => {
        const rect = this.rects.next();
        setAttr(rect, "x", x(0).toFixed(1));
        setAttr(rect, "y", ((bar + from) * pitch).toFixed(1));
        setAttr(rect, "width", Math.max(0.5, x(value) - x(0)).toFixed(1));
        setAttr(rect, "height", (size * pitch).toFixed(1));
        setAttr(rect, "fill", role === "residual" ? "url(#sv-hatch)" : colours[role]);
        setAttr(rect, "stroke", role === "residual" && value > 0 ? colours.residual : null);
        setAttr(rect, "opacity", role === "residual" || marked < 0 || bar === marked ? null : 0.65);
      });
    }
    this.rects.rest();
  }

  drawLabels(x, pitch, patch, count) {
    const { store, player } = this;
    const states = store.states(store.step);
    const marked = this.marked();
    const size = Math.min(12, pitch - 2);
    this.labels.start();
    this.signs.start();
    for (let bar = 0; bar < count; bar += 1) {
      const child = patch.children[bar];
      const state = child >= 0 ? states[child] : bar === patch.extra ? states[states.length - 1] : null;
      const sign = state && state !== "hidden" ? player.palette.states[state] : null;
      const label = this.labels.next();
      setText(label, fitting(plain(String(this.words.resolve(patch.labels[bar]))), LABELS - 24, size));
      setAttr(label, "x", LABELS - 17);
      setAttr(label, "y", ((bar + 0.5) * pitch + size * 0.35).toFixed(1));
      setAttr(label, "font-size", size);
      setAttr(label, "font-weight", bar === marked ? 700 : null);
      setAttr(label, "fill", sign && state !== "untested" && state !== "pending" ? player.colours[sign.text] : player.colours[bar === count - 1 ? "soft" : "ink"]);
      if (sign) putSign(this.signs.next(), LABELS - 8, (bar + 0.5) * pitch, sign, 8, player.colours);
    }
    this.labels.rest();
    this.signs.rest();
  }

  nodeAt(event) {
    if (!this.place) return null;
    const bar = Math.floor((event.clientY - this.host.getBoundingClientRect().top) / this.place.pitch);
    const node = this.patch.children[bar];
    if (node >= 0) return node;
    return bar >= 0 && bar === this.patch.extra && this.store.substep === "commit" ? this.store.current.step.tree.length : null;
  }

  rows() {
    const { patch } = this;
    const [p, q, residual] = ["p", "q", "residual"].map((role) => this.bars(role));
    return patch.labels.map((label, bar) => {
      const node = patch.children[bar];
      return {
        token: plain(String(this.words.resolve(label))), p: p[bar], q: q[bar], residual: residual[bar], child: node >= 0 ? node : null,
        pointed: node >= 0 ? node : null, now: bar === this.marked(),
      };
    });
  }
}

const BARS = [["residual", 0.05, 0.9], ["p", 0.13, 0.4], ["q", 0.57, 0.28]]; // role, top and height in rows

/** A figure's label back as plain text. */
function plain(label) {
  return label.replace(/&(lt|gt|amp|#36|#58|#64);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&", "#36": "$", "#58": ":", "#64": "@" })[name]);
}
