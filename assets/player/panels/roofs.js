/* The roofline in full. Solid marks were measured, hollow ones are computed for the batch size that the slider asks for; chips add the roofs
   of other machines from their datasheets. Below, in words: from which batch size on speculation stops paying. */

const ROOFS_TABLES = ["roofs_machines", "roofs_speedups", "roofs"];
const ROOFS_LARGE = new Set(["flops", "bytes", "bandwidth", "achieved"]);
const ROOFS_DRAW = ["all", "run", "steps", "language", "theme", "size", "batch"];

class RoofsPanel extends SeriesPanel {
  constructor(player) {
    super(player, "roofs", "mixed");
    this.chosen = new Set(["A100 80 GB"]);
    this.batch = 1;
  }

  build() {
    super.build();
    this.chips = el("div.sv-chips.sv-roofs-chips", { role: "group" });
    this.dial = el("input", { type: "range", min: 0, step: 1, value: 0, oninput: () => this.ask(this.sizes[this.dial.value]) });
    this.asked = el("output.sv-dial-value");
    this.dialName = el("span");
    this.side = el("div.sv-chart", { role: "img" });
    this.gains = new Chart(this.side, this.player);
    this.marks = el("div.sv-marks");
    this.gainMarks = el("div.sv-marks");
    this.beside = el("div.sv-roofs-gains", null, el("div.sv-plot", null, this.side), this.gainMarks);
    this.said = el("p.sv-roofs-said");
    this.compared = el("table.sv-table.sv-roofs-machines");
    this.foot = el("p.sv-foot");
    this.faults = el("p.sv-roofs-fault");
    const dial = el("label.sv-dial.sv-roofs-dial", null, this.dialName, this.dial, this.asked);
    const plots = el("div.sv-roofs-plots", null, el("div.sv-roofs-plot", null, this.plot, this.marks), this.beside);
    this.body.replaceChildren(el("div.sv-roofs-controls", null, this.chips, dial), plots, this.wait, this.faults, this.said, this.compared, this.foot);
    watchSize(this.side, () => this.player.invalidate("size"));
  }

  label() {
    super.label();
    setText(this.dialName, this.say("roofs.at_once"));
    this.dial.setAttribute("aria-label", this.say("roofs.at_once"));
    this.side.setAttribute("aria-label", this.say("roofs.title_speedups"));
    this.chips.setAttribute("aria-label", this.say("roofs.machines"));
  }

  emptyKey() {
    const header = this.store.run?.header;
    if (!header || !this.store.run.figures) return "player.empty_roofs";
    const { peaks, timings } = header;
    return peaks && timings?.passes.length && timings.passes.every(loadOf) ? null : "roofs.no_timings";
  }

  refresh(changed, atLeisure) {
    if (changed.has("run") || changed.has("steps")) this.found = this.own = undefined;
    super.refresh(changed, atLeisure);
  }

  // ---- what is asked ------------------------------------------------------------------------------------------------------------

  get fig() {
    return this.store.run.figures.roofs;
  }

  get sizes() {
    return this.fig.batches;
  }

  get shown() {
    return this.fig.machines.filter((machine) => machine.origin === "measured" || this.chosen.has(machine.key));
  }

  ask(batch) {
    this.batch = batch;
    this.pending.add("batch");
    this.player.invalidate("sight");
  }

  choose(machine) {
    if (!this.chosen.delete(machine.key)) this.chosen.add(machine.key);
    this.ask(this.batch);
  }

  /** Speculation in this run as the roofline sees it; null where nothing is proposed or no step is there yet. */
  speculation() {
    if (this.found === undefined) {
      const { header } = this.store.run;
      this.found = header.config.method === "plain" ? null : speculation(header, this.store.steps.map((view) => view.step));
    }
    return this.found;
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------------------

  caption() {
    const faults = this.store.run.points.roofs.filter((point) => point.fault).length;
    setFlag(this.note, "sv-fault", faults);
    return faults ? this.say("player.roofline_faults", { faults }) : this.say("roofs.caption", { batch: this.batch });
  }

  update(changed) {
    if (!ROOFS_DRAW.some((name) => changed.has(name))) return;
    if (!changed.has("batch") && !changed.has("all") && this.tooSoon()) return;
    this.control();
    this.tell();
    ChartPanel.prototype.update.call(this, changed);
  }

  control() {
    const at = this.sizes.indexOf(this.batch);
    this.dial.max = this.sizes.length - 1;
    this.dial.value = at;
    this.dial.setAttribute("aria-valuetext", `B = ${this.batch}`);
    setText(this.asked, `B = ${this.batch}`);
    const others = this.fig.machines.filter((machine) => machine.origin !== "measured");
    if (this.chips.childElementCount !== others.length) this.chips.replaceChildren(...others.map((machine) => this.chip(machine)));
    others.forEach((machine, i) => setAttr(this.chips.children[i], "aria-pressed", String(this.chosen.has(machine.key))));
  }

  chip(machine) {
    const chip = el("button.sv-chip", { type: "button", onclick: () => this.choose(machine) }, swatch(machine), machine.name);
    this.player.tip(chip, () => this.describe(machine));
    return chip;
  }

  /** A machine in one sentence: what it can do, and who says so. */
  describe(machine) {
    const { name, source } = machine;
    const note = machine.note ? ` ${this.say(machine.note)}` : "";
    return this.say(`roofs.about_${machine.origin}`, { name: literal(name), source: literal(day(source)), ...this.numbers(machine) }) + note;
  }

  numbers(machine) {
    return { flops: quantity(machine.flops, "FLOP/s"), bandwidth: quantity(machine.bandwidth, "B/s"), ridge: number(machine.ridge) };
  }

  points() {
    const { run } = this.store;
    this.own ||= this.passes();
    return [...run.points.roofs, ...this.own, ...projectedPoints(run.header, this.batch, this.shown)];
  }

  /** The passes of the run; of those that would cover each other one is enough. */
  passes() {
    const seen = new Map();
    for (const point of this.store.run.steps.flatMap((view) => view.points.roofline)) {
      const place = [point.kind, point.fault, number(point.intensity, 2), number(point.achieved, 2)].join("/");
      if (!seen.has(place)) seen.set(place, { ...point, set: "run", batch: 1, machine: "@roofs.here", curve: false });
    }
    return [...seen.values()];
  }

  paint() {
    const points = this.points();
    this.filled = filled(this.withMachines(this.fig), points);
    const top = Math.max(...this.shown.map((machine) => machine.flops));
    const { yaxis } = this.fig.layout;
    const range = [yaxis.range[0], Math.max(yaxis.range[1], Math.log10(2 * top))];
    this.chart.draw({ ...this.filled, layout: { ...this.fig.layout, yaxis: { ...yaxis, range } } }, { plotly_click: (event) => this.clicked(event) });
    this.legend();
    const found = this.speculation();
    setAttr(this.beside, "hidden", found ? null : true);
    if (found) this.paintGains();
  }

  /** The figure with the machines on show. */
  withMachines(fig) {
    const keys = new Set(this.shown.map((machine) => machine.key));
    return { ...fig, data: fig.data.map((trace) => (trace.meta?.machine ? { ...trace, visible: keys.has(trace.meta.machine) } : trace)) };
  }

  paintGains() {
    const fig = this.withMachines(this.store.run.figures.speedups);
    const [one, line] = fig.layout.shapes;
    const shapes = [one, { ...line, x0: this.batch, x1: this.batch }];
    this.gains.draw(filled({ ...fig, layout: { ...fig.layout, shapes } }, this.speedups()));
  }

  speedups() {
    const { run } = this.store;
    return speedupPoints(this.speculation(), this.batch, this.shown, this.sizes, runTotals(run).speedup);
  }

  /** What the signs mean, and where each comes from. */
  legend() {
    const mark = (sign, colour, words) => el("span.sv-signed", { "data-sign": sign, style: `--mark: var(--sv-${colour})` }, words);
    const kinds = ["plain", "draft", "verify", "prefill"].filter((kind) => this.store.run.points.roofs.some((point) => point.kind === kind));
    const looks = { plain: ["■", "commit"], draft: ["▲", "q"], verify: ["●", "p"], prefill: ["◆", "faint"] };
    const marks = kinds.map((kind) => mark(...looks[kind], this.say(`roofline.${kind}`)));
    if (this.store.run.header.timings.batches.length) marks.push(mark("✚", "residual", this.say("roofs.batches")));
    marks.push(mark("○", "p", this.say("roofs.hollow", { batch: this.batch })), mark("•", "faint", this.say("roofs.run")), mark("━", "roof", this.say("roofs.solid")));
    if (this.chosen.size) marks.push(mark("╌", "datasheet", this.say("roofs.dashed")));
    this.marks.replaceChildren(...marks);
    this.gainMarks.replaceChildren(mark("●", "accepted", this.say("roofs.done")), mark("○", "accent", this.say("roofs.now")), mark("┃", "refused", this.say("roofs.stop")), mark("━", "edge", this.say("roofs.plain")));
  }

  // ---- in words -----------------------------------------------------------------------------------------------------------------

  tell() {
    const { run } = this.store;
    const { timings, peaks, config, dtype } = run.header;
    const faults = faultsOf(run.points.roofs, peaks);
    const found = this.speculation();
    setAttr(this.faults, "hidden", faults.length ? null : true);
    setText(this.faults, faults.map((key) => this.say(key)).join(" "));
    setText(this.said, found ? this.verdict(found) : this.say(config.method === "plain" ? "roofs.plain_run" : "roofs.no_steps"));
    this.compare(found);
    const says = [this.say("roofs.assumed")];
    if (!timings.batches.length) says.push(this.say("roofs.no_batches"));
    if (dtype === "float32" && this.chosen.size) says.push(this.say("roofs.wide_numbers"));
    setText(this.foot, says.join(" "));
  }

  /** What the run's own machine says about speculation at the batch size that is asked. */
  verdict(found) {
    const [own] = this.shown;
    const stop = found.stops(own);
    const end = stop === null ? this.say("roofs.lasts", { most: MOST_AT_ONCE }) : stop > 1 ? this.say("roofs.stops", { stop }) : this.say("roofs.never");
    const [cost, speedup] = [found.cost(own, this.batch), found.speedup(own, this.batch)].map((value) => number(value));
    return this.say("roofs.verdict", { batch: this.batch, n: number(found.n), m: number(found.m), cost, speedup, end });
  }

  /** The machines on show beside each other: their numbers, whose they are, and what they mean for speculation. */
  compare(found) {
    const columns = ["name", "peak", "bandwidth", "ridge", "origin", ...(found ? ["cost", "speedup", "stops"] : [])];
    const head = el("tr", null, columns.map((field) => el(`th.sv-r-${field}`, { scope: "col" }, this.say(`table.${field}`))));
    const lines = this.shown.map((machine) => el("tr", null, columns.map((field) => el(`td.sv-r-${field}`, null, this.figure(machine, field, found)))));
    this.compared.replaceChildren(el("thead", null, head), el("tbody", null, lines));
  }

  figure(machine, field, found) {
    if (field === "name") return [swatch(machine), machine.name];
    if (field === "peak") return quantity(machine.flops, "FLOP/s");
    if (field === "bandwidth") return quantity(machine.bandwidth, "B/s");
    if (field === "ridge") return number(machine.ridge);
    if (field === "stops") return this.stop(found, machine);
    if (field !== "origin") return `${number(found[field](machine, this.batch))}×`;
    const tag = el("button.sv-tag", { type: "button" }, this.say(`origin.${machine.origin}`));
    this.player.tip(tag, () => this.describe(machine));
    return tag;
  }

  stop(found, machine) {
    return String(found.stops(machine) ?? `> ${MOST_AT_ONCE}`);
  }

  // ---- as tables ----------------------------------------------------------------------------------------------------------------

  columns() {
    return this.store.run.tables[this.part];
  }

  rows() {
    if (this.part === "roofs") return this.points().filter((point) => point.set !== "run");
    const found = this.speculation();
    if (this.part === "roofs_speedups") return found ? this.speedups().filter(({ set }) => set === "curve" || set === "measured").map((row) => ({ ...row, now: row.batch === this.batch })) : [];
    return this.fig.machines.map((machine) => ({ ...machine, stops: found && this.stop(found, machine) }));
  }

  cell(value, field) {
    if (field === "origin") return this.say(`origin.${value}`);
    if (field === "machine") return this.words.resolve(value);
    if (ROOFS_LARGE.has(field) && value !== null) return quantity(value, "").trim();
    return super.cell(value, field);
  }

  drawTwin() {
    const parts = ROOFS_TABLES.flatMap((part) => {
      this.part = part;
      super.drawTwin();
      return [el("h3.sv-twin-title", null, this.say(`roofs.table_${part}`)), this.twin.firstChild];
    });
    this.twin.replaceChildren(...parts);
  }
}

/** The line that a machine has in the figures. */
function swatch({ origin, dash }) {
  const dashes = dash === "solid" ? null : dash.replace(/px/g, "");
  const line = svg("line", { x1: 1, y1: 5, x2: 27, y2: 5, "stroke-width": origin === "measured" ? 2.2 : 1.5, "stroke-dasharray": dashes });
  return svg("svg", { class: `sv-swatch sv-swatch-${origin}`, viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" }, line);
}
