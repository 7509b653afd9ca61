/* All runs, and the heads that this program came with, side by side: what was measured of each, and what can be done with it. */

const FORMS = ["here", "vllm", "v1"]; // of an export (specviz/models/export.py; v2 knows no heads of several blocks); "here" is the run's own folder

class RunsCard extends TabCard {
  build() {
    super.build();
    this.asked = null; // the run that somebody may want to delete
    this.table = el("table.sv-table.sv-train-runs");
    this.foot = el("p.sv-foot");
    this.body.append(this.table, this.foot);
  }

  label() {
    super.label();
    setText(this.foot, this.say("train.runs_foot"));
    this.key = null;
  }

  caption() {
    return this.say("train.caption_runs", { count: this.tab.state.runs.length });
  }

  update() {
    const { state, run, exporting, asking } = this.tab;
    const facts = state.runs.map(({ name, phase, at, going, usable, stopping, measured }) => [name, phase, at, going, usable, stopping, measured]);
    const key = JSON.stringify([facts, run?.name, this.asked, exporting, Boolean(asking), this.tab.words.language]);
    if (key === this.key) return; // a button that has the focus keeps it
    this.key = key;
    const focused = this.table.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    const names = ["when", "pair", "minutes", "state", "texts", "top1", "top5", "calibrated", "acts"];
    const head = el("tr", null, names.map((name) => el("th", { scope: "col" }, name === "acts" ? el("span.sv-hidden", null, this.say("train.column_acts")) : this.say(`train.column_${name}`))));
    const rows = [...(state.shipped ? [this.shipped(state.shipped, names)] : []), ...state.runs.map((one) => this.row(one, names))];
    this.table.replaceChildren(el("thead", null, head), el("tbody", null, rows));
    if (focused) this.table.querySelector(`[data-act="${focused}"]`)?.focus();
  }

  shipped(measured, names) {
    const cells = { when: this.say("train.shipped"), pair: this.tab.nameOf("embedded"), ...this.figures(measured), acts: "" };
    return el("tr.sv-train-shipped", null, this.cells(cells, names));
  }

  figures(measured) {
    const { answer_tokens: tokens } = measured?.calibration || {};
    const over = tokens ? ` (${this.say("train.over", { tokens: grouped(tokens) })})` : "";
    const calibrated = measured?.calibrated.length ? shares(measured.calibrated) + over : "–";
    return { texts: measured?.tokens ? grouped(measured.tokens) : "–", top1: shares(measured?.top1), top5: shares(measured?.top5), calibrated };
  }

  row(one, names) {
    const cells = {
      when: this.link("show", one, this.tab.when(one)), pair: this.tab.nameOf(one.pair), minutes: String(one.minutes),
      state: `${{ done: "✓", failed: "✕" }[one.phase] || (one.going ? "●" : "◐")} ${this.say(`train.state_${one.phase}`)}`, ...this.figures(one.measured), acts: this.acts(one),
    };
    return el("tr", { class: one.name === this.tab.run?.name ? "sv-now" : null, "data-run": one.name }, this.cells(cells, names));
  }

  cells(cells, names) {
    return names.map((name) => el(`td.sv-t-${name}`, { "data-name": name === "acts" ? null : this.say(`train.column_${name}`) }, cells[name] ?? "–"));
  }

  link(name, one, text) {
    return el("button.sv-link", { type: "button", "data-act": `${name} ${one.name}`, onclick: () => this.tab.act(name, one.name) }, text);
  }

  acts(one) {
    if (this.asked === one.name) {
      const no = el("button.sv-chip", { type: "button", "data-act": `keep ${one.name}`, onclick: () => this.ask(null, one) }, this.say("train.keep"));
      const yes = el("button.sv-chip.sv-train-danger", { type: "button", "data-act": `delete ${one.name}`, onclick: () => this.drop(one) }, this.say("train.delete"));
      return el("div.sv-train-ask", { role: "group" }, el("span", null, this.say("train.delete_ask")), yes, no);
    }
    if (one.going) return el("div");
    const use = one.usable && this.link("use", one, this.say("train.use_short"));
    return el("div.sv-train-row-acts", null, use, one.usable && this.exports(one), this.question(one));
  }

  question(one) {
    return el("button.sv-link", { type: "button", "data-act": `ask ${one.name}`, "aria-label": this.say("train.delete_of", { when: this.tab.when(one) }), onclick: () => this.ask(one.name, one) }, this.say("train.delete"));
  }

  ask(name, one) {
    this.asked = name;
    this.tab.draw();
    this.table.querySelector(`[data-act="${name ? "keep" : "ask"} ${one.name}"]`)?.focus();
  }

  drop(one) {
    this.asked = null;
    this.tab.act("delete", one.name);
  }

  exports(one) {
    const busy = this.tab.exporting === one.name;
    const first = el("option", { value: "" }, this.say(busy ? "train.exporting" : "train.export"));
    const options = FORMS.map((form) => el("option", { value: form }, this.say(`train.export_${form}`)));
    const act = (event) => event.target.value && this.tab.export(one.name, event.target.value);
    return el("select.sv-train-export", { "data-act": `export ${one.name}`, "aria-label": this.say("train.export_of", { when: this.tab.when(one) }), disabled: busy, onchange: act }, first, options);
  }
}
