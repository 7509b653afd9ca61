/** One small box for all explanations: on hover and on focus, closed with Escape. */
class Tooltip {
  constructor(id = "specviz-tip") {
    this.root = el("div.sv-tip", { role: "tooltip", hidden: true, id });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
  }

  watch(element, text) {
    const show = () => this.show(element, text());
    element.addEventListener("mouseenter", show);
    element.addEventListener("focus", show);
    element.addEventListener("mouseleave", () => this.hide());
    element.addEventListener("blur", () => this.hide());
  }

  show(element, text) {
    if (!text) return;
    element.setAttribute("aria-describedby", this.root.id);
    const box = element.getBoundingClientRect();
    this.at(box.left + box.width / 2, box.bottom - 4, text, box.top + 4);
  }

  /** Below a point of the window, or above `top` where there is no room. */
  at(x, y, text, top = y) {
    setText(this.root, text);
    this.root.hidden = false;
    const own = this.root.getBoundingClientRect();
    this.root.style.left = `${clamp(x - own.width / 2, 8, window.innerWidth - own.width - 8)}px`;
    this.root.style.top = `${y + own.height + 18 < window.innerHeight ? y + 12 : top - own.height - 12}px`;
  }

  hide() {
    this.root.hidden = true;
  }
}
