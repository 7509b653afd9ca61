/* The step player: it owns the DOM inside one element, draws at most once a frame, and knows neither Gradio nor any framework. */

const NOTHING = new Set();

/**
 * new SpecvizPlayer(element, {locales, palette, language, plotly, server, helpButton})
 *
 * `plotly` is the library, or a function that returns a promise of it. `server` may offer `open_trace(text)` → run_view | {error: {key, args}}
 * and `resend({run, from})` → step_views. The player offers open(run_view), message(…), and `api`, which pages know as window.specviz.
 */
class SpecvizPlayer {
  constructor(element, { locales, palette, language, plotly, server, helpButton = true } = {}) {
    this.words = new Words(locales, language || navigator.language);
    this.palette = palette;
    this.server = server || {};
    this.plotly = null;
    this.plotlyFailed = false;
    this.changed = new Set();
    this.theme = this.wantedTheme(element);
    this.store = new Store((...names) => this.invalidate(...names), this.server);
    this.tooltip = new Tooltip();
    this.build(element);
    this.transport.help.hidden = !helpButton;
    this.watch();
    this.load(plotly);
    this.invalidate("all", "run", "language");
  }

  get colours() {
    return this.palette.colours[this.theme];
  }

  /** Every panel, those below the first screen last. */
  get all() {
    return [...this.panels, ...this.lower];
  }

  build(element) {
    this.text = new TextPanel(this);
    this.transport = new Transport(this);
    this.banner = new Banner(this);
    this.panels = [TreePanel, MaskPanel, DistributionPanel, VerdictsPanel, DivergencePanel, RooflinePanel, TimingPanel].map((Kind) => new Kind(this));
    this.lower = [CostPanel, WhyPanel, AcceptancePanel, RoofsPanel, TypicalPanel, RulesPanel].map((Kind) => new Kind(this)); // the section below the first screen
    this.help = new Help(this);
    this.live = el("div.sv-hidden", { role: "status", "aria-live": "polite" });
    this.grid = el("div.sv-grid", null, this.text.root, this.transport.root, this.panels.map((panel) => panel.root));
    this.explained = new Explained(this, this.lower);
    const screen = el("div.sv-screen", null, this.banner.root, this.grid);
    this.root = el("div.specviz", null, el("div.sv-page", null, screen, this.explained.root), this.live, this.help.dialog, this.tooltip.root);
    this.adopt(element);
  }

  /** Move into another element, as it is: the page may take the old one away and give a new one. */
  adopt(element) {
    element.replaceChildren(this.root);
    element.style.height = "100%"; // where the page gives the player a height, it scrolls inside of it
    this.applyTheme();
  }

  tip(element, text) {
    this.tooltip.watch(element, text);
  }

  load(plotly) {
    Promise.resolve(typeof plotly === "function" ? plotly() : plotly).then((library) => {
      this.plotly = library || null;
      this.plotlyFailed = !library;
      this.invalidate("all");
    }, () => {
      this.plotlyFailed = true;
      for (const panel of this.all) if (panel instanceof ChartPanel && !panel.asTable) panel.flip(); // the tables need no library
    });
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------------------

  invalidate(...names) {
    for (const name of names) this.changed.add(name);
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = null;
    const changed = this.changed;
    this.changed = new Set();
    for (const part of [this.text, this.banner, this.transport, ...this.all]) part.refresh(changed);
    this.text.settle();
    for (const panel of this.all) panel.settle();
    clearTimeout(this.leisure);
    this.leisure = setTimeout(() => this.drawTheRest(), 400);
    if (changed.has("language")) for (const part of [this.help, this.explained]) part.label();
    setFlag(this.root, "sv-busy", this.store.incoming || (this.store.run?.live && !this.store.run.done));
    setFlag(this.root, "sv-stale", this.store.incoming);
    if (["step", "run", "language", "node"].some((name) => changed.has(name))) this.announce(changed);
  }

  /** Draw what waits out of sight too. */
  drawTheRest() {
    for (const panel of this.all) panel.refresh(NOTHING, true);
  }

  /** What the step did, for those who hear the page; said once the movement rests. */
  announce(changed) {
    const node = changed.has("node") && !changed.has("step");
    clearTimeout(this.saying);
    this.saying = setTimeout(() => setText(this.live, node ? this.panels[3].inWords(this.store.node) : this.inWords()), 400);
  }

  inWords() {
    const { store } = this;
    if (!store.current) return "";
    const { step } = store.current;
    const judged = store.judged(store.step);
    const at = this.words.say("player.step", { step: store.step + 1, steps: store.steps.length });
    if (store.substep === "propose") return `${at}. ${this.words.say("player.said_propose", { nodes: step.tree.length - 1 })}`;
    const accepted = judged.verdicts.filter((verdict) => verdict === "accepted").length;
    const said = { accepted, nodes: step.tree.length - 1 };
    if (store.substep === "verify") return `${at}. ${this.words.say("player.said_verify", said)}`;
    const text = literal(judged.tokens.map((token) => token.text).join(""));
    return `${at}. ${this.words.say("player.said_commit", { ...said, text })}`;
  }

  // ---- what the page around it does ---------------------------------------------------------------------------------------------

  watch() {
    this.stopKeys = listenToKeys(this);
    for (const panel of this.all) watchSize(panel.host || panel.frame || panel.body, () => this.invalidate("size"));
    watchSize(this.transport.lane, () => this.invalidate("size"));
    const sight = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const panel = this.all.find((one) => one.root === entry.target);
        panel.visible = entry.isIntersecting;
      }
      this.invalidate("sight");
    }, { rootMargin: "120px" });
    for (const panel of this.all) sight.observe(panel.root);
    new MutationObserver(() => this.applyTheme()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme());
  }

  /** Gradio marks its theme on the body; a page of its own may too, and otherwise the system decides. */
  wantedTheme(element) {
    const { classList } = document.body;
    if (classList.contains("dark")) return "dark";
    if (classList.contains("light") || element.closest(".gradio-container")) return "light";
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  applyTheme() {
    const theme = this.wantedTheme(this.root);
    setFlag(this.root, "dark", theme === "dark");
    if (theme === this.theme) return;
    this.theme = theme;
    this.invalidate("theme");
  }

  setLanguage(language) {
    this.words.use(language);
    this.root.lang = this.words.language === "zh" ? "zh-CN" : this.words.language;
    this.invalidate("language");
    return this.words.language;
  }

  // ---- the face to pages and tests ----------------------------------------------------------------------------------------------

  /** Show a whole run from its start, or (`telling`) at a step that shows the idea. */
  open(view, telling = false) {
    this.transport.toggle(false);
    this.store.open(view, telling);
  }

  message(message) {
    this.store.message(message);
  }

  /** Open a run_view, or a trace file's JSON, which the server turns into one. Nothing on show is lost when that fails. */
  async loadTrace(trace) {
    try {
      const data = typeof trace === "string" ? JSON.parse(trace) : trace;
      const ready = data && Array.isArray(data.steps) && data.steps.every((step) => step && step.figures && step.step) && data.figures;
      if (!ready && !this.server.open_trace) throw { key: "player.no_server" };
      const view = ready ? data : await this.server.open_trace(JSON.stringify(data));
      if (view?.error) throw view.error;
      if (!view?.header?.config) throw { key: "player.load_failed" };
      this.open(view);
      return true;
    } catch (error) {
      this.store.notice = error?.key || error?.text ? error : { key: error instanceof SyntaxError ? "error.trace_json" : "player.load_failed" };
      this.invalidate("status");
      return false;
    }
  }

  get api() {
    const { store } = this;
    return {
      state: () => this.state(),
      seek: (index, substep) => store.seek(index, substep),
      select: (node) => store.select(node),
      load: (trace) => this.loadTrace(trace),
      rejudge: (change) => store.rejudge(change),
      setLanguage: (language) => this.setLanguage(language),
      substep: (name) => store.toSubstep(name),
      play: (on) => this.transport.toggle(on),
      message: (message) => this.message(message),
      player: this,
    };
  }

  state() {
    const { store } = this;
    const { run } = store;
    return {
      run: run?.id ?? null, steps: store.steps.length, step: store.step, substep: store.substep, node: store.node, hover: store.hover,
      playing: store.playing, language: this.words.language, theme: this.theme, recorded: run ? run.recorded : false,
      mode: run && !run.recorded ? "live" : "recorded", done: run ? run.done : false, ended: run?.ended ?? null, follow: store.follow, gap: run?.gap ?? false,
      rule: store.rule, rejudged: Boolean(store.whatIf), differs: store.differs, incoming: store.incoming?.id ?? null, status: store.status, error: store.error, notice: store.notice,
      charts: Boolean(this.plotly),
    };
  }
}

/** One strip for what must be seen: an error, a notice, or that the run is shown under another rule than it was decoded with. */
class Banner {
  constructor(player) {
    this.player = player;
    this.store = player.store;
    this.text = el("span");
    this.action = el("button.sv-chip", { type: "button", onclick: () => this.act() });
    this.close = iconButton("close", () => this.dismiss());
    this.root = el("div.sv-banner", { id: "banner", role: "alert", hidden: true }, this.text, this.action, this.close);
  }

  say(key, args) {
    return this.player.words.say(key, args);
  }

  refresh(changed) {
    if (!["all", "run", "steps", "status", "rule", "language", "step"].some((name) => changed.has(name))) return;
    const { store } = this;
    const fault = store.error || store.notice;
    const kind = fault ? "error" : store.whatIf ? "whatif" : null;
    setAttr(this.root, "hidden", kind ? null : true);
    setAttr(this.root, "data-kind", kind);
    if (!kind) return;
    setText(this.text, fault ? fault.text || this.say(fault.key, fault.args) : this.whatIf());
    setAttr(this.action, "hidden", kind === "whatif" ? null : true);
    setAttr(this.close, "hidden", kind === "error" ? null : true);
    setText(this.action, this.say("player.whatif_back", { rule: this.say(`player.name_${store.recordedRule?.rule}`) }));
    this.close.setAttribute("aria-label", this.say("player.close"));
  }

  whatIf() {
    const { store } = this;
    const { rule, epsilon, delta } = store.whatIf;
    const name = rule === "typical" ? this.say("player.name_typical_numbers", { epsilon: number(epsilon), delta: number(delta) }) : this.say(`player.name_${rule}`);
    const key = store.differs < 0 ? "player.whatif_same" : store.comparable(store.step) ? "player.whatif_differs" : "player.whatif_behind";
    return this.say(key, { rule: name, step: store.differs + 1 });
  }

  act() {
    this.store.rejudge(this.store.recordedRule);
  }

  dismiss() {
    this.store.error = null;
    this.store.notice = null;
    this.player.invalidate("status");
  }
}

/** The section below the first screen: a heading, one line, and the cards that say why the run was as fast as it was. */
class Explained {
  constructor(player, panels) {
    this.player = player;
    this.title = el("h2.sv-explained-title", { id: "sv-explained-title", tabindex: -1 });
    this.line = el("p.sv-explained-line");
    this.back = el("button.sv-chip", { type: "button", onclick: () => this.leave() });
    const head = el("div.sv-explained-head", null, this.title, this.line, this.back);
    const cards = el("div.sv-lower", null, panels.map((panel) => panel.root));
    this.root = el("section.sv-explained", { id: "explained", "aria-labelledby": "sv-explained-title" }, head, cards);
  }

  label() {
    const say = (key) => this.player.words.say(key);
    setText(this.title, say("player.explained"));
    setText(this.line, say("player.explained_line"));
    setText(this.back, say("player.explained_back"));
  }

  /** Go there; the focus follows, so that the next Tab stands on the first card. */
  enter() {
    this.scroll(this.root);
    this.title.focus({ preventScroll: true });
  }

  /** Go to one of the cards. */
  enterPanel(panel) {
    this.scroll(panel.root);
    panel.toggle.focus({ preventScroll: true });
  }

  leave() {
    const { transport, root } = this.player;
    this.scroll(root.querySelector(".sv-page"));
    transport.slider.focus({ preventScroll: true });
  }

  scroll(element) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.player.drawTheRest(); // a card that grew on the way would push the place away
    element.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }
}
