/* The tree as text, in the published choices format: lists of ranks, as in the Medusa repository. */

class ExchangeCard extends TabCard {
  build() {
    super.build();
    this.text = el("textarea.sv-lab-choices", { id: "lab-choices", spellcheck: "false", autocomplete: "off", oninput: () => this.written() });
    this.read = el("button.sv-chip", { type: "button", onclick: () => this.take(this.text.value) });
    this.back = el("button.sv-chip", { type: "button", onclick: () => this.forget() });
    this.copy = el("button.sv-chip", { type: "button", onclick: () => this.copied() });
    this.save = el("button.sv-chip", { type: "button", onclick: () => this.download() });
    this.file = el("input", { type: "file", accept: ".json,.txt,.py", hidden: true, onchange: () => this.opened() });
    this.open = el("button.sv-chip", { type: "button", onclick: () => this.file.click() });
    this.said = el("p.sv-lab-said", { role: "status", "aria-live": "polite" });
    this.body.append(this.text, el("div.sv-lab-actions", null, this.read, this.back, this.copy, this.save, this.open, this.file), this.said);
    this.own = false; // whether the box holds what somebody wrote, not the tree on show
  }

  label() {
    super.label();
    for (const name of ["read", "back", "copy", "save", "open"]) setText(this[name], this.say(`lab.exchange_${name}`));
    this.text.setAttribute("aria-label", this.say("lab.title_exchange"));
  }

  update() {
    if (!this.own && this.text.value !== this.tab.choices) this.text.value = this.tab.choices;
    this.read.disabled = !this.own;
    this.back.disabled = !this.own;
    setText(this.said, this.message ? this.say(this.message.key, this.message.args) : "");
    setAttr(this.said, "data-kind", this.message?.kind ?? null);
  }

  written() {
    this.own = this.text.value !== this.tab.choices;
    this.tell(null);
  }

  tell(message) {
    this.message = message;
    this.tab.invalidate();
  }

  /** Read a tree; where it is refused, the text and the tree on show stay as they are. */
  async take(text) {
    const refused = await this.tab.read(text);
    if (!refused) this.own = false;
    this.tell(refused ? { ...refused, kind: "refused" } : { key: "lab.exchange_done", args: { count: this.tab.tree.length }, kind: "done" });
  }

  forget() {
    this.own = false;
    this.tell(null);
  }

  async copied() {
    try {
      await navigator.clipboard.writeText(this.tab.choices);
    } catch {
      const kept = this.text.value;
      this.text.value = this.tab.choices;
      this.text.select();
      document.execCommand("copy"); // where the page is not served securely, there is no clipboard to write to
      this.text.value = kept;
    }
    this.tell({ key: "lab.exchange_copied", args: { count: this.tab.tree.length }, kind: "done" });
  }

  download() {
    const link = el("a", { href: URL.createObjectURL(new Blob([`${this.tab.choices}\n`], { type: "application/json" })), download: `tree-${this.tab.tree.length}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async opened() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    this.text.value = (await file.slice(0, 1_000_000).text()).trim();
    this.own = true;
    await this.take(this.text.value);
  }
}
