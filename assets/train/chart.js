/* The two charts of a run, and how its numbers are written. */

/** A figure of the run on show, with a table twin. Figure and table come from Python (specviz/figures/training.py). */
class TrainChart extends TabChart {
  get table() {
    return this.tab.shown?.tables[this.name] ?? { columns: [], rows: [] };
  }

  get columns() {
    return this.table.columns;
  }

  get tabled() {
    return this.asTable && this.table.rows.length > 0;
  }

  get blank() {
    return this.table.rows.length ? super.blank : this.keys.empty;
  }

  caption() {
    return this.table.rows.length ? super.caption() : "";
  }

  update() {
    super.update();
    setFlag(this.plot, "sv-train-void", this.blank);
  }

  picture() {
    return this.tab.shown.stamp;
  }

  figure() {
    return this.tab.shown.figures[this.name];
  }

  rows() {
    return this.table.rows.map((row) => ({ cells: row.map((cell, i) => this.cell(cell, i)) }));
  }

  cell(value, column) {
    if (value === null) return "–";
    if (column === 0) return clockOf(60 * value);
    if (column === 1) return grouped(value);
    return this.name === "accuracies" ? percent(value) : number(value);
  }
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
