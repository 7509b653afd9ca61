/* The frame of a tab's cards: a title, one line of caption, where the numbers come from, and the same as a table. */

/**
 * A card owns the element `#tab-name`. A subclass gives `update()`, which draws the tab's present state, and may give `caption()` and a
 * table twin: `columns` (titles, "@key" or literal) and `rows()` ({cells, now} each, `now` for the row in focus).
 */
class TabCard {
  constructor(tab, name, origin = null) {
    Object.assign(this, { tab, name, origin, keys: tab.keys(name), asTable: false });
    this.build();
  }

  say(key, args) {
    return this.tab.words.say(key, args);
  }

  build() {
    const id = `${this.tab.name}-${this.name}`;
    this.title = el("h2.sv-title", { id: `${id}-title` });
    this.note = el("span.sv-caption");
    this.tag = el("button.sv-tag", { type: "button" });
    this.toggle = iconButton("table", () => this.flip());
    this.toggle.setAttribute("aria-pressed", "false");
    this.head = el("header.sv-head", null, this.title, this.note, this.origin && this.tag, this.columns && this.toggle);
    setFlag(this.head, "sv-buttoned", this.columns);
    this.body = el("div.sv-body");
    this.twin = el("div.sv-twin", { hidden: true, tabindex: 0, role: "region" });
    this.root = el("section.sv-card.sv-panel", { id, "aria-labelledby": `${id}-title` }, this.head, this.body, this.twin);
    this.tab.tip(this.tag, () => this.say(this.keys.origin));
    this.tab.tip(this.toggle, () => this.say(this.asTable ? "player.show_chart" : "player.show_table"));
  }

  /** Null where there is no twin. */
  get columns() {
    return null;
  }

  /** Whether the twin stands in place of the body. */
  get tabled() {
    return this.asTable;
  }

  flip() {
    this.asTable = !this.asTable;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    this.toggle.replaceChildren(icon(this.asTable ? "chart" : "table"));
    this.tab.tooltip.hide(); // it says what the button did, not what it does now
    this.tab.invalidate();
  }

  caption() {
    return this.say(this.keys.caption);
  }

  label() {
    const title = this.say(this.keys.title);
    setText(this.title, title);
    if (this.origin) setText(this.tag, this.say(`player.tag_${this.origin}`));
    this.toggle.setAttribute("aria-label", this.say("player.as_table", { panel: title }));
    this.twin.setAttribute("aria-label", title);
  }

  refresh() {
    setText(this.note, this.caption());
    setAttr(this.body, "hidden", this.tabled);
    setAttr(this.twin, "hidden", !this.tabled);
    this.update();
    if (this.tabled) this.drawTwin();
  }

  update() {}

  /** The table is made anew only where it changed: whoever reads it keeps the place. */
  drawTwin() {
    const [columns, rows] = [this.columns.map((title) => this.tab.words.resolve(title)), this.rows()];
    const key = JSON.stringify([columns, rows]);
    if (key === this.twinKey) return;
    this.twinKey = key;
    const head = el("tr", null, columns.map((title) => el("th", { scope: "col" }, title)));
    const body = rows.map(({ cells, now }) => el("tr", { class: now ? "sv-now" : null }, cells.map((cell) => el("td", null, written(cell)))));
    this.twin.replaceChildren(el("table.sv-table", null, el("thead", null, head), el("tbody", null, body)));
  }
}

/** A card with one plotly figure: `picture()` is what it depends on, null while there is none; `figure()` is from Python. */
class TabChart extends TabCard {
  build() {
    super.build();
    frame(this, this.tab);
    watchSize(this.host, () => this.tab.invalidate());
  }

  /** The key of the sentence that stands in place of the figure, or null. */
  get blank() {
    return chartless(this.tab);
  }

  /** The figure for those who do not see it. */
  inWords() {
    return this.say(this.keys.title);
  }

  update() {
    const { blank } = this;
    setAttr(this.wait, "hidden", !blank);
    setText(this.wait, blank ? this.say(blank) : "");
    const picture = blank || this.tabled ? null : this.picture();
    if (!picture) return;
    const { wide, high } = sizeOf(this.host);
    const key = JSON.stringify([picture, wide, high, this.tab.theme, this.tab.words.language]);
    if (key !== this.key && this.chart.draw(this.figure())) this.key = key;
    this.host.setAttribute("aria-label", this.inWords());
  }
}

/** A count with its thousands set apart. */
function grouped(count) {
  return Math.round(count).toLocaleString("en-US");
}
