/* The Train tab: it asks the server what the runs are doing, once a second while one goes on, and draws only what changed. */

const PACE = { going: 1000, quiet: 5000, lost: 3000 }; // milliseconds between two questions

/**
 * new TrainTab(element, {locales, palette, language, plotly, server, page}). `server` offers state, begin, act and pack (see
 * specviz/ui/tabs/train.py); `page` offers use(name), which chooses heads in the player, and download(path).
 */
class TrainTab {
  constructor(element, { locales, palette, language, plotly, server, page }) {
    Object.assign(this, { palette, server, page, loadPlotly: plotly, plotly: null, plotlyFailed: false, visible: false });
    Object.assign(this, { state: null, shown: null, run: null, chosen: null, fault: null, asking: null, exporting: null, lost: false });
    this.words = new Words(locales, language);
    this.tooltip = new Tooltip("specviz-train-tip");
    this.build(element);
  }

  get colours() {
    return this.palette.colours[this.theme];
  }

  build(element) {
    this.cards = [new StartCard(this), new RunCard(this), new TrainChart(this, "losses", "measured"), new TrainChart(this, "accuracies", "measured"), new RunsCard(this)];
    this.news = el("div.sv-hidden", { role: "status", "aria-live": "polite" });
    this.silent = el("p.sv-train-lost", { role: "alert", hidden: true });
    const grid = el("div.sv-train-grid", null, this.silent, this.cards.map((card) => card.root));
    this.root = el("div.specviz.sv-train", { lang: this.words.language }, grid, this.news, this.tooltip.root);
    element.replaceChildren(this.root);
    element.style.height = "100%";
    this.applyTheme();
    new MutationObserver(() => this.applyTheme()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    document.addEventListener("visibilitychange", () => this.visible && !document.hidden && this.look());
    this.label();
  }

  tip(element, text) {
    this.tooltip.watch(element, text);
  }

  /** The tab comes to the front, or leaves it: nobody asks while nobody looks. */
  show(on) {
    if (on && !this.visible && !this.plotly) this.loadPlotly().then((library) => this.set({ plotly: library }), () => this.set({ plotlyFailed: true }));
    this.visible = on;
    clearTimeout(this.later);
    if (on) this.look();
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------------------

  set(change) {
    Object.assign(this, change);
    this.invalidate();
  }

  invalidate() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    setAttr(this.silent, "hidden", this.lost ? null : true);
    if (!this.state) return;
    for (const card of this.cards) card.update(this.state);
  }

  label() {
    setText(this.silent, this.words.say("train.no_server"));
    for (const card of this.cards) card.label();
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

  /** A pair as the player's list calls it. */
  nameOf(pair) {
    return this.state?.pairs.find(([, name]) => name === pair)?.[0] ?? pair;
  }

  when(run) {
    const date = new Date(run.started);
    const known = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false };
    return Number.isNaN(date.getTime()) ? run.name : date.toLocaleString(this.root.lang === "zh-CN" ? "zh-CN" : "en-GB", known);
  }

  // ---- the server ---------------------------------------------------------------------------------------------------------------

  /** Ask what the runs are doing, and go on asking. */
  async look() {
    clearTimeout(this.later);
    const turn = (this.turn = (this.turn || 0) + 1);
    const answer = await this.call("state", { run: this.chosen, have: this.shown?.stamp ?? null });
    if (turn !== this.turn) return; // another question is on its way
    if (answer) this.take(answer);
    const pace = this.lost ? PACE.lost : this.state?.current ? PACE.going : PACE.quiet;
    if (this.visible && !document.hidden) this.later = setTimeout(() => this.look(), pace);
    this.invalidate();
  }

  take({ shown, ...state }) {
    const before = this.run;
    this.state = state;
    this.run = state.runs.find(({ name }) => name === state.run) ?? null;
    if (shown) this.shown = shown;
    else if (!this.run) this.shown = null;
    const moved = this.run && (before?.name !== this.run.name || before?.phase !== this.run.phase);
    if (moved && before) setText(this.news, sentenceOf(this.run, this));
  }

  /** The answer of the server; a refusal becomes `fault`, silence `lost`, and both are null. */
  async call(name, asked) {
    try {
      const answer = await this.server[name](asked);
      this.lost = !answer;
      if (answer?.error && name !== "state") this.fault = answer.error;
      return answer?.error ? null : answer;
    } catch {
      this.lost = true;
      return null;
    }
  }

  /** Ask for something to be done; meanwhile no other button does anything. */
  async request(name, asked) {
    this.set({ asking: name, fault: null });
    const answer = await this.call(name, asked);
    this.asking = null;
    await this.look();
    return answer;
  }

  async begin(pair, minutes) {
    const answer = await this.request("begin", { pair, minutes });
    if (answer) {
      this.chosen = answer.name;
      await this.look();
    }
  }

  async act(what, name) {
    if (what === "show") {
      this.chosen = name;
      this.shown = null;
      return void this.look();
    }
    if (what === "use") return void this.page.use(name);
    if (what === "delete" && this.chosen === name) this.chosen = null;
    if (what === "delete") this.shown = null;
    await this.request("act", { what, name });
  }

  async export(name, form) {
    this.set({ exporting: name, fault: null });
    const answer = await this.call("pack", { name, form });
    this.exporting = null;
    if (answer) this.page.download(answer.path, answer.file);
    this.invalidate();
  }
}

/** Put the tab into a gr.HTML, and keep it in step with the page's tabs and language. */
function mountTrain({ element, server }, plotlyPath) {
  for (const [id, css] of [["specviz-style", STYLE], ["specviz-train-style", TRAIN_STYLE]]) {
    if (!document.getElementById(id)) document.head.append(el("style", { id }, css));
  }
  const page = {
    use: (name) => {
      tab.wanted = name; // read by the event that this button triggers (specviz/ui/tabs/train.py)
      document.getElementById("use-heads").click();
    },
    download: (path, file) => el("a", { href: plotlyUrl(path), download: file }).click(),
  };
  const tab = new TrainTab(element, { ...OPTIONS, language: document.documentElement.lang, server, page, plotly: () => loadPlotly(plotlyUrl(plotlyPath)) });
  window.specvizTrain = tab;
  const look = () => tab.show(document.documentElement.dataset.tab === "train");
  document.addEventListener("specviz-tab", look);
  document.addEventListener("specviz-language", ({ detail }) => tab.setLanguage(detail));
  look();
}
