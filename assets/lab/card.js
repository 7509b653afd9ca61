/* The frame of the lab's cards: a title, one line of caption, where the numbers come from, and the same as a table. */

/**
 * A card owns the element `#lab-name`. A subclass gives `update()`, which draws the lab's present state, and may give `caption()` and a
 * table twin: `columns` (keys of their titles) and `rows()` (a list of texts and numbers each).
 */
class Card {
  constructor(lab, name, origin) {
    this.lab = lab;
    this.name = name;
    this.origin = origin;
    this.asTable = false;
    this.build();
  }

  say(key, args) {
    return this.lab.words.say(key, args);
  }

  build() {
    this.title = el("h2.sv-title", { id: `lab-${this.name}-title` });
    this.note = el("span.sv-caption");
    this.tag = el("button.sv-tag", { type: "button" });
    this.toggle = iconButton("table", () => this.flip());
    this.toggle.setAttribute("aria-pressed", "false");
    this.head = el("header.sv-head.sv-buttoned", null, this.title, this.note, this.origin && this.tag, this.columns && this.toggle);
    this.body = el("div.sv-body");
    this.twin = el("div.sv-twin", { hidden: true, tabindex: 0, role: "region" });
    this.root = el("section.sv-card.sv-panel", { id: `lab-${this.name}`, "aria-labelledby": `lab-${this.name}-title` }, this.head, this.body, this.twin);
    this.lab.tip(this.tag, () => this.say(`lab.origin_${this.name}`));
    this.lab.tip(this.toggle, () => this.say(this.asTable ? "player.show_chart" : "player.show_table"));
  }

  get columns() {
    return null;
  }

  flip() {
    this.asTable = !this.asTable;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    this.toggle.replaceChildren(icon(this.asTable ? "chart" : "table"));
    this.lab.invalidate();
  }

  caption() {
    return this.say(`lab.caption_${this.name}`);
  }

  label() {
    const title = this.say(`lab.title_${this.name}`);
    setText(this.title, title);
    if (this.origin) setText(this.tag, this.say(`player.tag_${this.origin}`));
    this.toggle.setAttribute("aria-label", this.say("player.as_table", { panel: title }));
    this.twin.setAttribute("aria-label", title);
  }

  refresh() {
    setText(this.note, this.caption());
    setAttr(this.body, "hidden", this.asTable ? true : null);
    setAttr(this.twin, "hidden", this.asTable ? null : true);
    this.update();
    if (this.asTable) this.drawTwin();
  }

  update() {}

  drawTwin() {
    const head = el("tr", null, this.columns.map((key) => el("th", { scope: "col" }, this.say(key))));
    const rows = this.rows().map((row) => el("tr", { class: row.now ? "sv-now" : null }, row.cells.map((cell) => el("td", null, written(cell)))));
    this.twin.replaceChildren(el("table.sv-table", null, el("thead", null, head), el("tbody", null, rows)));
  }
}

/** A value in a table: whole numbers as they are, others with three digits, "–" for what is not known. */
function written(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? number(value) : String(value);
}

/** A count with its thousands set apart. */
function grouped(count) {
  return count.toLocaleString("en-US");
}

/** A card with one plotly figure. */
class ChartCard extends Card {
  build() {
    super.build();
    this.host = el("div.sv-chart", { role: "img" });
    this.wait = el("p.sv-wait");
    this.plot = el("div.sv-plot", null, this.host);
    this.body.append(this.plot, this.wait);
    this.chart = new Chart(this.host, this.lab);
    watchSize(this.host, () => this.lab.invalidate());
  }

  update() {
    const { plotly, plotlyFailed } = this.lab;
    setAttr(this.wait, "hidden", plotly ? true : null);
    setText(this.wait, plotly ? "" : this.say(plotlyFailed ? "player.charts_failed" : "player.charts_loading"));
    if (!plotly || !this.lab.grown || this.asTable) return;
    const { wide, high } = sizeOf(this.host);
    const key = JSON.stringify([this.picture(), wide, high, this.lab.theme, this.lab.words.language]);
    if (key !== this.key && this.chart.draw(this.figure())) this.key = key;
    this.host.setAttribute("aria-label", this.inWords());
  }
}

/** A slider with its name before it and its value behind it. */
class LabDial {
  constructor(min, max, step, moved) {
    this.name = el("span.sv-lab-dial-name");
    this.input = el("input", { type: "range", min, max, step, oninput: () => moved(Number(this.input.value)) });
    this.value = el("output");
    this.root = el("label.sv-lab-dial", null, this.name, this.input, this.value);
  }

  show(name, value, text = String(value)) {
    setText(this.name, name);
    setText(this.value, text);
    if (Number(this.input.value) !== value) this.input.value = value;
    this.input.setAttribute("aria-label", name);
    this.input.setAttribute("aria-valuetext", text);
  }
}
