/* The frame that all panels share: a title, one line of caption, where its numbers come from, and the same as a table. */

const CELL_WORDS = { state: "state", outcome: "state", kind: "roofline", part: "slow", figure: "acceptance" }; // fields whose values are words of the program

const SLOW = 500; // milliseconds that a panel may lag behind a live run

/**
 * A panel owns the element `#name`. A subclass gives `update(changed)`, which draws the store's present state, and may give
 * `caption()`, `rows()` (the rows of its table twin) and `origin` ("measured", "computed", "assumed").
 */
class Panel {
  constructor(player, name, origin) {
    this.player = player;
    this.store = player.store;
    this.name = name;
    this.origin = origin;
    this.asTable = false;
    this.pending = new Set(["all"]);
    this.visible = true;
    this.lag = 0;
    this.paintedAt = -Infinity;
    this.build();
  }

  get words() {
    return this.player.words;
  }

  say(key, args) {
    return this.words.say(key, args);
  }

  build() {
    this.title = el("h2.sv-title", { id: `${this.name}-title` });
    this.note = el("span.sv-caption");
    this.tag = el("button.sv-tag", { type: "button" });
    this.toggle = iconButton("table", () => this.flip());
    this.toggle.setAttribute("aria-pressed", "false");
    this.head = el("header.sv-head.sv-buttoned", null, this.title, this.note, this.origin ? this.tag : null, this.toggle);
    this.body = el("div.sv-body");
    this.twin = el("div.sv-twin", { hidden: true, tabindex: 0, role: "region" });
    this.blank = el("p.sv-blank", { hidden: true });
    this.root = el("section.sv-card.sv-panel", { id: this.name, "aria-labelledby": `${this.name}-title` }, this.head, this.body, this.twin, this.blank);
    this.player.tip(this.tag, () => this.say(`player.origin_${this.name}`));
    this.player.tip(this.toggle, () => this.say(this.asTable ? "player.show_chart" : "player.show_table"));
  }

  flip() {
    this.asTable = !this.asTable;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    this.toggle.replaceChildren(icon(this.asTable ? "chart" : "table"));
    this.player.tooltip.hide(); // it says what the button did, not what it does now
    this.again();
  }

  /** Draw this panel anew. */
  again() {
    this.pending.add("all");
    this.player.invalidate("sight");
  }

  /** Draw what changed. While nobody can see the panel it is remembered, until there is time for it. */
  refresh(changed, atLeisure = false) {
    for (const name of changed) this.pending.add(name);
    if (!(this.visible || atLeisure) || !this.pending.size || this.lags()) return;
    const due = this.pending;
    this.pending = new Set();
    if (due.has("all") || due.has("language")) this.label();
    const empty = this.emptyKey();
    setAttr(this.blank, "hidden", empty ? null : true);
    setAttr(this.body, "hidden", empty || this.asTable ? true : null);
    setAttr(this.twin, "hidden", !empty && this.asTable ? null : true);
    setText(this.note, empty ? "" : this.caption() || "");
    if (empty) return void setText(this.blank, this.say(empty));
    if (this.asTable) this.drawTwin();
    else this.update(due);
  }

  /**
   * While a live run is followed, text and tree keep up with every step. Nobody can read the others at that pace, and where the model
   * runs on the same machine, drawing them takes the processor's time from it: they may lag `lag` milliseconds behind.
   */
  lags() {
    const { run, follow } = this.store;
    const now = performance.now();
    const wait = this.lag && run?.live && !run.done && follow ? this.lag - (now - this.paintedAt) : 0;
    if (wait > 0) {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.player.invalidate("sight"), wait);
    } else this.paintedAt = now;
    return wait > 0;
  }

  /** What needs the layout of everything that was drawn. */
  settle() {}

  label() {
    setText(this.title, this.say(`player.title_${this.name}`));
    if (this.origin) setText(this.tag, this.say(`player.tag_${this.origin}`));
    this.toggle.setAttribute("aria-label", this.say("player.as_table", { panel: this.say(`player.title_${this.name}`) }));
    this.twin.setAttribute("aria-label", this.say(`player.title_${this.name}`));
  }

  /** The sentence that stands in place of the panel while it has nothing to show, or null. */
  emptyKey() {
    return this.store.current ? null : `player.empty_${this.name}`;
  }

  caption() {
    return this.words.has(`player.caption_${this.name}`) ? this.say(`player.caption_${this.name}`) : "";
  }

  columns() {
    return this.store.run?.tables[this.name] || [];
  }

  drawTwin() {
    const columns = this.columns();
    const head = el("tr", null, columns.map(([title]) => el("th", { scope: "col" }, this.words.resolve(title))));
    const rows = this.rows().map((row) => {
      const cells = columns.map(([, field]) => el("td", null, this.cell(row[field], field)));
      return el("tr", { "data-node": row.pointed ?? null, class: row.now ? "sv-now" : null }, cells);
    });
    this.twin.replaceChildren(el("table.sv-table", null, el("thead", null, head), el("tbody", null, rows)));
  }

  cell(value, field) {
    return CELL_WORDS[field] && value !== null && value !== undefined ? this.say(`${CELL_WORDS[field]}.${value}`) : written(value);
  }
}

/** A panel whose body is one plotly figure. */
class ChartPanel extends Panel {
  build() {
    super.build();
    frame(this, this.player);
  }

  label() {
    super.label();
    this.host.setAttribute("aria-label", this.say(`player.title_${this.name}`));
  }

  update(changed) {
    const blank = chartless(this.player);
    setAttr(this.wait, "hidden", !blank);
    setText(this.wait, blank ? this.say(blank) : "");
    if (!blank) this.paint(changed);
  }
}
