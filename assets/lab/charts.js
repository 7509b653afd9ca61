/* The lab's two charts: what a tree of each size should yield, and how many candidates all combinations take. Their bases come from Python. */

class CurveCard extends TabChart {
  get columns() {
    return ["@lab.col_size", "@lab.col_added", "@lab.col_gain", "@lab.col_expected", "@lab.col_rate"];
  }

  build() {
    super.build();
    this.foot = el("p.sv-lab-note");
    this.body.append(this.foot);
  }

  refresh() {
    super.refresh();
    setText(this.foot, this.tab.grown ? this.inWords() : "");
  }

  picture() {
    const { tab: lab } = this;
    return lab.grown && [lab.grown.id, lab.horizon, lab.tree.length, lab.expected.value, lab.fastest?.at ?? null];
  }

  figure() {
    const { tab: lab } = this;
    const { data, layout } = lab.grown.figures.curve;
    const most = Math.min(lab.horizon, lab.grown.order.length);
    const [curve, best, now] = data;
    const fastest = lab.fastest;
    const own = lab.tree.length <= most ? [lab.tree.length, lab.expected.value] : null;
    return {
      data: [
        { ...curve, x: curve.x.slice(0, most + 1), y: curve.y.slice(0, most + 1) },
        { ...best, x: fastest ? [fastest.at] : [], y: fastest ? [fastest.expected] : [] },
        { ...now, x: own ? [own[0]] : [], y: own ? [own[1]] : [] },
      ],
      layout,
    };
  }

  /** The size with the most tokens a second by measured passes, or why there is none. */
  inWords() {
    const { tab: lab } = this;
    const { fastest, pace, live } = lab;
    if (!fastest) return this.say(this.noPace());
    const args = { candidates: fastest.at, rate: number(fastest.rate, 3), device: pace.run.device };
    return this.say(pace === live ? "lab.fastest_here" : "lab.fastest_recorded", args);
  }

  noPace() {
    const { grown, pace, live, recorded } = this.tab;
    if (["draft", "ngram"].includes(grown.source.name)) return "lab.no_pace_source";
    return !pace && (live?.model || recorded?.model) ? "lab.no_pace_heads" : "lab.no_pace";
  }

  rows() {
    const { tab: lab } = this;
    const rates = new Map(lab.rates.map(({ at, rate }) => [at, rate]));
    const { order, expected } = lab.grown;
    return order.slice(0, lab.horizon).map((path, i) => ({
      cells: [i + 1, textOf(path), chanceOf(path, lab.grown.accuracies), expected[i], rates.get(i + 1) ?? null], now: lab.tree.length === i + 1,
    }));
  }
}

class CartesianCard extends TabChart {
  get columns() {
    return ["@lab.col_depth", "@lab.col_width", "@lab.col_full", "@lab.col_sparse"];
  }

  build() {
    super.build();
    this.heads = new LabDial(1, 8, 1, (value) => this.tab.combine({ heads: value }));
    this.all = new LabDial(1, 10, 1, (value) => this.tab.combine({ all: value }));
    this.dials = Array.from({ length: 8 }, (_, depth) => new LabDial(1, 10, 1, (value) => this.tab.combine({ depth, value })));
    const dials = el("div.sv-lab-dials", null, this.heads.root, this.all.root, el("div.sv-lab-each", null, this.dials.map(({ root }) => root)));
    this.paths = el("b");
    this.nodes = el("b");
    this.full = el("p.sv-lab-count");
    this.sparse = el("p.sv-lab-count.sv-lab-sparse");
    this.take = el("button.sv-chip", { type: "button", onclick: () => this.tab.takeFull() });
    const side = el("div.sv-lab-side", null, dials, this.full, this.sparse, el("div", null, this.take));
    this.body.replaceChildren(side, this.plot, this.wait);
    this.body.classList.add("sv-lab-split");
  }

  refresh() {
    const { tab: lab } = this;
    const { widths } = lab;
    this.heads.show(this.say("lab.heads"), widths.length);
    const same = widths.every((width) => width === widths[0]);
    this.all.show(this.say("lab.every"), widths[0], same ? String(widths[0]) : "…");
    this.dials.forEach((dial, depth) => {
      setAttr(dial.root, "hidden", depth < widths.length ? null : true);
      if (depth < widths.length) dial.show(this.say("lab.width", { head: depth + 1 }), widths[depth]);
    });
    if (lab.grown) this.count();
    super.refresh();
  }

  count() {
    const { tab: lab } = this;
    const counts = fullCounts(lab.widths);
    const nodes = counts.reduce((sum, count) => sum + count, 0);
    setText(this.full, this.say("lab.full", { paths: grouped(counts.at(-1)), nodes: grouped(nodes), expected: this.worth(fullExpected(lab.widths, lab.grown.accuracies)) }));
    const size = lab.sparse.length;
    setText(this.sparse, this.say("lab.sparse", { nodes: size, expected: number(lab.grown.expected[size - 1], 3) }));
    const reason = nodes > 256 ? "lab.take_large" : lab.widths.length > lab.heads ? "lab.take_deep" : "lab.take";
    this.take.disabled = reason !== "lab.take";
    setText(this.take, this.say(reason, { heads: lab.heads }));
  }

  worth(expected) {
    return expected === null ? this.say("lab.not_known") : number(expected, 3);
  }

  picture() {
    return this.tab.grown && [this.tab.grown.id, this.tab.widths];
  }

  figure() {
    const { data, layout } = this.tab.grown.figures.explosion;
    const columns = [fullCounts(this.tab.widths), depthCounts(this.tab.sparse)];
    const bars = data.map((bar, i) => ({ ...bar, x: columns[i].map((_, depth) => depth + 1 + bar.meta.offset), y: columns[i] }));
    const depths = Math.max(columns[0].length, columns[1].length, 4);
    const top = Math.max(4.2, Math.log10(columns[0].at(-1)) + 0.3);
    return { data: bars, layout: { ...layout, xaxis: { ...layout.xaxis, range: [0.5, depths + 0.5] }, yaxis: { ...layout.yaxis, range: [-0.15, top] } } };
  }

  inWords() {
    return `${this.full.textContent} ${this.sparse.textContent}`;
  }

  rows() {
    const [full, sparse] = [fullCounts(this.tab.widths), depthCounts(this.tab.sparse)];
    return Array.from({ length: Math.max(full.length, sparse.length) }, (_, i) => ({
      cells: [i + 1, this.tab.widths[i] ?? null, full[i] === undefined ? null : grouped(full[i]), sparse[i] ?? 0],
    }));
  }
}
