/* What the tabs behind the player share: their place in the page, its language and theme, and when they draw. */

/**
 * A tab fills an element, with `name` in front of its ids and classes. A subclass calls `build`, gives `keys(card)`, the locale keys of its
 * cards, and may add to `show`, `draw` and `label`. `server` offers what its Python answers, `page` what it may ask of the page around it.
 */
class Tab {
  constructor(name, { locales, palette, language, plotly, server, page }) {
    Object.assign(this, { name, palette, server, page, loadPlotly: plotly, plotly: null, plotlyFailed: false });
    this.words = new Words(locales, language);
    this.tooltip = new Tooltip(`specviz-${name}-tip`);
  }

  get colours() {
    return this.palette.colours[this.theme];
  }

  /** Fill `element` with `parts` ({root, label(), refresh()} each) in a grid, and with what stands behind it. */
  build(element, parts, behind) {
    this.parts = parts;
    this.grid = el(`div.sv-${this.name}-grid`, null, parts.map(({ root }) => root));
    this.root = el(`div.specviz.sv-${this.name}`, { lang: this.words.language }, this.grid, behind, this.tooltip.root);
    element.replaceChildren(this.root);
    element.style.height = "100%";
    this.applyTheme();
    new MutationObserver(() => this.applyTheme()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.label();
  }

  tip(element, text) {
    this.tooltip.watch(element, text);
  }

  /** The tab comes to the front, or leaves it; the first time, plotly is loaded. */
  show(on) {
    if (on) this.loading ||= this.loadPlotly().then((library) => this.set({ plotly: library }), () => this.set({ plotlyFailed: true }));
  }

  set(change) {
    Object.assign(this, change);
    this.invalidate();
  }

  /** Draw soon: at most once a frame. */
  invalidate() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    for (const part of this.parts) part.refresh();
  }

  label() {
    for (const part of this.parts) part.label();
    this.invalidate();
  }

  setLanguage(language) {
    this.words.use(language);
    this.root.lang = this.words.language === "zh" ? "zh-CN" : this.words.language;
    this.label();
  }

  applyTheme() {
    this.theme = document.body.classList.contains("dark") ? "dark" : "light";
    setFlag(this.root, "dark", this.theme === "dark");
    this.invalidate();
  }
}

/** Put a tab of the class `Kind` into a gr.HTML, and keep it in step with the page, which calls it `address`, and its language. */
function mountTab(Kind, address, { element, server }, plotlyPath, page) {
  for (const [id, css] of Object.entries(STYLES)) {
    if (!document.getElementById(id)) document.head.append(el("style", { id }, css));
  }
  const plotly = () => loadPlotly(plotlyUrl(plotlyPath));
  const tab = new Kind(element, { ...OPTIONS, language: document.documentElement.lang, server, page, plotly });
  const look = () => tab.show(document.documentElement.dataset.tab === address);
  document.addEventListener("specviz-tab", look);
  document.addEventListener("specviz-language", ({ detail }) => tab.setLanguage(detail));
  look();
  return tab;
}
