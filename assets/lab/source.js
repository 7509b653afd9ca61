/* Where the accuracies come from: measured beside the weights of a proposer, or assumed, with sliders. */

const LAB_SOURCES = ["medusa", "draft", "ngram", "assumed"];
const PROFILE = { heads: [1, 8, 1], first: [0.01, 1, 0.01], by_head: [0, 1, 0.01], by_rank: [0, 1, 0.01] };

class SourceStrip {
  constructor(lab) {
    this.lab = lab;
    this.title = el("h2.sv-lab-title");
    this.line = el("p.sv-lab-line");
    this.name = el("span.sv-lab-dial-name", { id: "lab-source-name" });
    this.choices = LAB_SOURCES.map((name) => {
      const input = el("input", { type: "radio", name: "lab-source", value: name, onchange: () => lab.choose(name) });
      const text = el("span");
      const root = el("label.sv-seg", null, input, text);
      lab.tip(root, () => (input.disabled ? this.say("lab.not_calibrated", { method: name }) : ""));
      return { name, input, text, root };
    });
    this.heads = el("select", { onchange: () => lab.choose("medusa", this.heads.value) });
    lab.tip(this.heads, () => this.say("lab.whose_heads"));
    this.whose = el("span.sv-seg.sv-lab-whose", { hidden: true }, el("span", { "aria-hidden": "true" }, "▾"), this.heads);
    const [medusa, ...others] = this.choices.map(({ root }) => root);
    const group = el("div.sv-segs.sv-lab-sources", { role: "radiogroup", "aria-labelledby": "lab-source-name" }, medusa, this.whose, others);
    this.dials = Object.entries(PROFILE).map(([name, [min, max, step]]) => (
      [name, new LabDial(min, max, step, (value) => lab.assume({ [name]: value }))]
    ));
    this.profile = el("div.sv-lab-profile", { hidden: true }, this.dials.map(([, dial]) => dial.root));
    this.origin = el("p.sv-lab-origin");
    this.root = el("section.sv-card.sv-lab-source", { id: "lab-source" }, el("div", null, this.title, this.line), el("div.sv-lab-from", null, this.name, group, this.profile, this.origin));
  }

  say(key, args) {
    return this.lab.words.say(key, args);
  }

  label() {
    setText(this.title, this.say("lab.title"));
    setText(this.line, this.say("lab.line"));
    setText(this.name, this.say("lab.source"));
    for (const { name, text } of this.choices) setText(text, this.say(`lab.source_${name}`));
    this.heads.setAttribute("aria-label", this.say("lab.whose_heads"));
  }

  refresh() {
    const { source, profile, grown } = this.lab;
    for (const { name, input, root } of this.choices) {
      input.checked = name === source;
      input.disabled = Boolean(grown) && name !== "assumed" && !grown.known.includes(name);
      setFlag(root, "sv-on", name === source);
      setFlag(root, "sv-off", input.disabled);
    }
    this.list();
    setAttr(this.profile, "hidden", source === "assumed" ? null : true);
    for (const [name, dial] of this.dials) dial.show(this.say(`lab.profile_${name}`), profile[name]);
    setFlag(this.origin, "sv-lab-assumed", source === "assumed");
    setText(this.origin, grown ? this.from(grown) : "");
  }

  /** The heads to choose from, where there are several; the list is made anew only where it changed, for it may be open. */
  list() {
    const { source, pair, grown, words } = this.lab;
    const heads = grown?.heads ?? [];
    const key = JSON.stringify([heads, words.language]);
    if (key !== this.key) this.heads.replaceChildren(...heads.map((one) => el("option", { value: one.name }, this.nameOf(one))));
    this.key = key;
    const chosen = source === "medusa" ? pair : ""; // with none chosen, choosing any of them is a change
    if (this.heads.value !== chosen) this.heads.value = chosen;
    setAttr(this.whose, "hidden", heads.length > 1 ? null : true);
    setFlag(this.whose, "sv-on", source === "medusa");
  }

  nameOf({ pair, when }) {
    return this.say(when ? "lab.heads_own" : "lab.heads_shipped", { pair, when });
  }

  /** One sentence: how these accuracies were found. */
  from({ source, accuracies, heads }) {
    const first = accuracies.map((row) => number(row[0], 2)).join(" · ");
    const silent = this.choices.filter(({ input }) => input.disabled).map(({ text }) => text.textContent).join(", ");
    const whose = heads.find(({ name }) => name === source.pair);
    const args = { first, heads: whose ? this.nameOf(whose) : "", prompts: source.prompts ?? "?", tokens: source.answer_tokens ? grouped(source.answer_tokens) : "?" };
    const on = source.name === "medusa" && !source.answer_tokens ? "medusa_texts" : source.name;
    const told = this.say(`lab.from_${on}`, args);
    return [told, silent && this.say("lab.uncalibrated", { names: silent })].join(" ").trim();
  }
}
