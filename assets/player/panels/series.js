/* What accumulates along the run: divergence, timing, roofline. A base figure from Python is filled with the points of the steps; moving to
   another step only changes how strongly the points of that step stand out, so that is done on the drawn marks, not by drawing again. */

const LAG = 700; // milliseconds between two drawings of a live run: on the same machine, drawing slows decoding
const FADED = 0.28; // opacity of the points of other steps (specviz/figures/plot.py)

class SeriesPanel extends ChartPanel {
  /** All points so far, in order. */
  points() {
    const { run } = this.store;
    const own = run.steps.flatMap((view) => view.points[this.name] || []);
    return [...(run.points[this.name] || []), ...own];
  }

  /** What a figure needs beyond its points. */
  adjust(fig) {
    return fig;
  }

  base() {
    return this.store.run.figures[this.name];
  }

  paint(changed) {
    const { store, player } = this;
    const { wide, high } = sizeOf(this.host);
    const key = [store.run.id, store.steps.length, store.run.done, player.theme, player.words.language, wide, high, this.extraKey()].join("|");
    if (key !== this.key) {
      if (this.tooSoon()) return;
      this.key = key;
      this.filled = this.adjust(filled(this.base(), this.points()));
      this.chart.draw(this.filled, { plotly_click: (event) => this.clicked(event) });
      this.emphasise();
    } else if (changed.has("step")) this.emphasise();
  }

  extraKey() {
    return "";
  }

  /** While steps stream in, the curves may lag a little behind them: the newest step itself must be on screen at once. */
  tooSoon() {
    const { run } = this.store;
    const now = performance.now();
    if (run.live && !run.done && now - this.drawnAt < LAG) {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.again(), LAG);
      return true;
    }
    this.drawnAt = now;
    return false;
  }

  /** A click on a point goes to its step. */
  clicked(event) {
    const { curveNumber, pointNumber } = event.points[0];
    const point = this.filled.data[curveNumber]?.points?.[pointNumber];
    if (point && point.step >= 0) this.store.seek(point.step);
  }

  /** Fade the marks of other steps. */
  emphasise() {
    if (!this.chart.drawn) return;
    for (const calc of this.host.calcdata || []) {
      const { points, meta } = this.filled.data[calc[0].trace.index] || {};
      if (!points || !meta.fade) continue;
      marksOf(calc).forEach((mark, j) => (mark.style.opacity = points[j] && points[j].step !== this.store.step ? FADED : 1));
    }
  }

  rows() {
    return this.points().map((point) => ({ ...point, now: point.step === this.store.step }));
  }

  cell(value, field) {
    if (field !== "step") return super.cell(value, field);
    return value < 0 ? this.say("roofline.plain") : String(value + 1);
  }
}

/** The drawn marks of a trace, in order: plotly keeps the group of a trace with its calculated data. */
function marksOf(calc) {
  const group = calc[0].node3?.node();
  return group ? [...group.querySelectorAll(".points > path.point, .point > path")] : [];
}

const SIGNS = { square: "■", "triangle-up": "▲", circle: "●", "diamond-tall": "◆", diamond: "◆", "x-thin": "✕" };

/** A base figure with its traces filled from points, as specviz/figures/plot.py fills them; each keeps its points beside it. */
function filled(fig, points) {
  const data = fig.data.map((trace) => {
    const meta = trace.meta;
    if (!meta || !("where" in meta)) return trace;
    const wanted = Object.entries(meta.where);
    const mine = points.filter((point) => wanted.every(([field, value]) => point[field] === value)
      && point[meta.x] !== null && point[meta.x] !== undefined && point[meta.y] !== null && point[meta.y] !== undefined);
    const full = { ...trace, x: mine.map((point) => point[meta.x]), y: mine.map((point) => point[meta.y]), points: mine };
    if (meta.hover?.length) full.customdata = mine.map((point) => meta.hover.map((field) => point[field]));
    return full;
  });
  return { ...fig, data };
}

class DivergencePanel extends SeriesPanel {
  constructor(player) {
    super(player, "divergence", "computed");
  }

  emptyKey() {
    if (!this.store.current) return "player.empty_divergence";
    return this.points().length ? null : "player.no_divergence";
  }

  /** What the upper axis is: KL(p‖q) is infinite where q was copied from the text, so there are no bars then. */
  annotations(fig) {
    const copied = this.store.run.header.config.method === "ngram";
    return fig.layout.annotations.map((note, i) => (copied && i === 0 ? { ...note, text: "@divergence.kl_copied" } : note));
  }

  build() {
    super.build();
    this.foot = el("p.sv-foot");
    this.body.append(this.foot);
  }

  /** Expected and observed acceptance go below the figure; many marks become small ones. */
  adjust(fig) {
    const points = this.points();
    const mean = (value) => number(points.reduce((sum, point) => sum + value(point), 0) / points.length, 2);
    setText(this.foot, this.say("player.acceptance", { expected: mean((p) => p.overlap), observed: mean((p) => Number(p.outcome === "accepted")) }));
    const room = sizeOf(this.host).wide / points.length; // pixels a position
    const data = fig.data.map((trace) => (trace.mode === "markers" ? { ...trace, marker: { ...trace.marker, size: clamp(room * 1.2, 3, 7), line: { ...trace.marker.line, width: room < 5 ? 1 : 1.8 } } } : trace));
    return { ...fig, data, layout: { ...fig.layout, yaxis: { ...fig.layout.yaxis, domain: [0.62, 1], nticks: 2 }, yaxis2: { ...fig.layout.yaxis2, domain: [0, 0.38], tickvals: [0, 1] }, annotations: this.annotations(fig).slice(0, sizeOf(this.host).high < 96 ? 1 : 2), margin: { ...fig.layout.margin, b: 18 } } };
  }
}

class TimingPanel extends SeriesPanel {
  constructor(player) {
    super(player, "timing", "measured");
  }

  /** What the current step took, in words below the figure. */
  tell() {
    const { run, step } = this.store;
    const point = run.steps[step].points.timing;
    const args = { tokens: point.tokens, took: milliseconds(point.decode), plain: point.plain === null ? "" : milliseconds(point.plain_total) };
    setText(this.foot, this.say(point.plain === null ? "player.timing_step" : "player.timing_step_plain", args));
  }

  points() {
    return this.store.run.steps.map((view) => view.points.timing);
  }

  build() {
    super.build();
    this.foot = el("p.sv-foot");
    this.marks = el("div.sv-marks");
    this.more = el("button.sv-link", { type: "button", onclick: () => this.player.explained.enter() });
    this.player.tip(this.more, () => this.say("player.explained"));
    this.body.append(this.foot, el("div.sv-under", null, this.marks, this.more));
  }

  /** The sub-steps' colours stand on their buttons; only plain decoding's mark needs a legend. */
  label() {
    super.label();
    setText(this.more, this.say("player.explained_go"));
    this.marks.replaceChildren(el("span.sv-dash", { style: "--mark: var(--sv-ink)" }, this.say("timing.plain")));
  }

  update(changed) {
    this.tell();
    super.update(changed);
  }

  adjust(fig) {
    const low = sizeOf(this.host).high < 120;
    const yaxis = { ...fig.layout.yaxis, nticks: low ? 3 : 5 };
    return { ...fig, layout: { ...fig.layout, yaxis, annotations: [], margin: { ...fig.layout.margin, t: 6, b: 20 } } };
  }
}

/** What the points above a roof mean: the locale keys of `fault` in specviz/analysis/roofline.py. */
function faultsOf(points, { flops, bandwidth }) {
  const kinds = points.filter((point) => point.fault).map((point) => (point.intensity < flops / bandwidth ? "memory" : "arithmetic"));
  return [...new Set(kinds)].map((kind) => `roofline.above_${kind}`);
}

class RooflinePanel extends SeriesPanel {
  constructor(player) {
    super(player, "roofline", "measured");
    this.compare = false;
  }

  build() {
    super.build();
    this.other = el("button.sv-chip", { type: "button", "aria-pressed": "false", onclick: () => this.flipRoof() }, "A100");
    this.player.tip(this.other, () => this.say("player.a100_tip", this.sheet()));
    this.player.tip(this.note, () => this.faults().map((key) => this.say(key)).join(" "));
    this.marks = el("div.sv-marks");
    this.foot = el("p.sv-foot");
    this.body.append(this.foot, el("div.sv-under", null, this.marks, this.other));
  }

  label() {
    super.label();
    setText(this.foot, this.say("roofline.axes"));
    setText(this.other, this.compare ? `A100 · ${this.say("player.tag_assumed")}` : "A100");
  }

  /** Which passes there are, by the signs that they have in the figure. */
  legend(fig) {
    const drawn = fig.data.filter((trace) => trace.points?.length);
    this.marks.replaceChildren(...drawn.map((trace) => {
      const colour = trace.marker.color.replace("var:", "").replace(/_/g, "-");
      return el("span.sv-signed", { "data-sign": SIGNS[trace.marker.symbol] || "●", style: `--mark: var(--sv-${colour})` }, this.say(`roofline.${trace.meta.where.fault ? "fault" : trace.meta.where.kind}`));
    }));
  }

  flipRoof() {
    this.compare = !this.compare;
    this.other.setAttribute("aria-pressed", String(this.compare));
    this.again();
  }

  emptyKey() {
    return this.store.run?.header && this.store.run.figures ? null : "player.empty_roofline";
  }

  extraKey() {
    return String(this.compare);
  }

  /** The numbers of the other machine's datasheet. */
  sheet() {
    const { flops, bandwidth, ridge } = this.store.run.figures.roofs.machines.find(({ name }) => name.startsWith("A100"));
    return { flops: quantity(flops, "FLOP/s"), bandwidth: quantity(bandwidth, "B/s"), ridge: number(ridge) };
  }

  faults() {
    const { run } = this.store;
    return run?.header.peaks ? faultsOf(this.points(), run.header.peaks) : [];
  }

  caption() {
    const faults = this.points().filter((point) => point.fault).length;
    setFlag(this.note, "sv-fault", faults);
    setAttr(this.note, "tabindex", faults ? 0 : null);
    return faults ? this.say("player.roofline_faults", { faults }) : "";
  }

  /** The datasheet's roof is assumed, not measured; with it the axes reach further. */
  adjust(fig) {
    const view = (fig.views || {})[this.compare ? "datasheet" : "measured"] || {};
    this.legend(fig);
    const { title, ...xaxis } = fig.layout.xaxis;
    const annotations = fig.layout.annotations.filter((note) => !(note.yshift < 0)); // the legend stands below, as text
    const layout = { ...fig.layout, xaxis, annotations, margin: { ...fig.layout.margin, b: 20 } };
    for (const [path, value] of Object.entries(view)) {
      const [axis, field] = path.split(".");
      layout[axis] = { ...layout[axis], [field]: value };
    }
    const data = fig.data.map((trace) => (trace.meta?.role === "datasheet" ? { ...trace, visible: this.compare } : trace));
    return { ...fig, data, layout };
  }
}
