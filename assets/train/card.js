/* The frame of the tab's cards, and the two that hold a plotly figure and the same numbers as a table. */

/** A card owns the element `#train-name`; a subclass gives `update(state)`. */
class TrainCard {
  constructor(tab, name, origin) {
    Object.assign(this, { tab, name, origin });
    this.build();
  }

  say(key, args) {
    return this.tab.words.say(key, args);
  }

  build() {
    this.title = el("h2.sv-title", { id: `train-${this.name}-title` });
    this.note = el("span.sv-caption");
    this.tag = this.origin && el("button.sv-tag", { type: "button" });
    this.head = el("header.sv-head", null, this.title, this.note, this.tag);
    this.body = el("div.sv-body");
    this.root = el("section.sv-card.sv-panel", { id: `train-${this.name}`, "aria-labelledby": `train-${this.name}-title` }, this.head, this.body);
    if (this.tag) this.tab.tip(this.tag, () => this.say(`train.origin_${this.name}`));
  }

  label() {
    setText(this.title, this.say(`train.title_${this.name}`));
    if (this.tag) setText(this.tag, this.say("player.tag_measured"));
  }
}

/** A figure of the run on show, with a table twin. Figure and table come from Python (specviz/figures/training.py). */
class TrainChart extends TrainCard {
  build() {
    super.build();
    this.asTable = false;
    this.toggle = iconButton("table", () => this.flip());
    this.toggle.setAttribute("aria-pressed", "false");
    this.tab.tip(this.toggle, () => this.say(this.asTable ? "player.show_chart" : "player.show_table"));
    this.head.append(this.toggle);
    setFlag(this.head, "sv-buttoned", true);
    this.host = el("div.sv-chart", { role: "img" });
    this.blank = el("p.sv-wait");
    this.plot = el("div.sv-plot", null, this.host);
    this.body.append(this.plot, this.blank);
    this.twin = el("div.sv-twin", { hidden: true, tabindex: 0, role: "region" });
    this.root.append(this.twin);
    this.chart = new Chart(this.host, this.tab);
    watchSize(this.host, () => this.tab.invalidate());
  }

  flip() {
    this.asTable = !this.asTable;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    this.toggle.replaceChildren(icon(this.asTable ? "chart" : "table"));
    this.tab.tooltip.hide();
    this.tab.invalidate();
  }

  label() {
    super.label();
    const title = this.say(`train.title_${this.name}`);
    this.toggle.setAttribute("aria-label", this.say("player.as_table", { panel: title }));
    this.twin.setAttribute("aria-label", title);
    this.host.setAttribute("aria-label", title);
  }

  update() {
    const { shown, plotly, plotlyFailed } = this.tab;
    const rows = shown?.tables[this.name].rows || [];
    const blank = !rows.length ? `train.empty_${this.name}` : plotly ? null : plotlyFailed ? "player.charts_failed" : "player.charts_loading";
    setText(this.note, rows.length ? this.say(`train.caption_${this.name}`) : "");
    setAttr(this.body, "hidden", this.asTable && rows.length ? true : null);
    setAttr(this.twin, "hidden", this.asTable && rows.length ? null : true);
    setAttr(this.blank, "hidden", blank ? null : true);
    setText(this.blank, blank ? this.say(blank) : "");
    setFlag(this.plot, "sv-train-void", blank);
    if (blank && !(this.asTable && rows.length)) return;
    if (this.asTable) this.drawTwin(shown.tables[this.name]);
    else this.draw(shown.figures[this.name], shown.stamp);
  }

  draw(figure, stamp) {
    const { wide, high } = sizeOf(this.host);
    const key = [stamp, wide, high, this.tab.theme, this.tab.words.language].join("/");
    if (key !== this.key && this.chart.draw(figure)) this.key = key;
  }

  drawTwin({ columns, rows }) {
    const key = [this.tab.shown.stamp, this.tab.words.language].join("/");
    if (key === this.twinKey) return; // whoever reads it keeps the place
    this.twinKey = key;
    const head = el("tr", null, columns.map((title) => el("th", { scope: "col" }, this.tab.words.resolve(title))));
    const body = rows.map((row) => el("tr", null, row.map((cell, i) => el("td", null, this.cell(cell, i)))));
    this.twin.replaceChildren(el("table.sv-table", null, el("thead", null, head), el("tbody", null, body)));
  }

  cell(value, column) {
    if (value === null) return "–";
    if (column === 0) return clockOf(60 * value);
    if (column === 1) return grouped(value);
    return this.name === "accuracies" ? percent(value) : number(value);
  }
}

/** A count with its thousands set apart. */
function grouped(count) {
  return Math.round(count).toLocaleString("en-US");
}

/** A share as a percentage with one decimal. */
function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;
}

/** Seconds as 1:02:03 or 2:03. */
function clockOf(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), String(whole % 60).padStart(2, "0")];
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The share of the first right candidates of each head, as one line. */
function shares(values) {
  return values?.length ? `${values.map((value) => (100 * value).toFixed(1)).join(" · ")} %` : "–";
}
