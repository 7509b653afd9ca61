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
