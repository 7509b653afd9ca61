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
    const group = el("div.sv-segs.sv-lab-sources", { role: "radiogroup", "aria-labelledby": "lab-source-name" }, this.choices.map(({ root }) => root));
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
  }

  refresh() {
    const { source, profile, grown } = this.lab;
    for (const { name, input, root } of this.choices) {
      input.checked = name === source;
      input.disabled = Boolean(grown) && name !== "assumed" && !grown.known.includes(name);
      setFlag(root, "sv-on", name === source);
      setFlag(root, "sv-off", input.disabled);
    }
    setAttr(this.profile, "hidden", source === "assumed" ? null : true);
    for (const [name, dial] of this.dials) dial.show(this.say(`lab.profile_${name}`), profile[name]);
    setFlag(this.origin, "sv-lab-assumed", source === "assumed");
    setText(this.origin, grown ? this.from(grown) : "");
  }

  /** One sentence: how these accuracies were found. */
  from({ source, accuracies }) {
    const first = accuracies.map((row) => number(row[0], 2)).join(" · ");
    const silent = this.choices.filter(({ input }) => input.disabled).map(({ text }) => text.textContent).join(", ");
    const args = { first, prompts: source.prompts ?? "?", tokens: source.answer_tokens ? grouped(source.answer_tokens) : "?" };
    const told = this.say(`lab.from_${source.name}`, args);
    return [told, silent && this.say("lab.uncalibrated", { names: silent })].join(" ").trim();
  }
}
