/* The Train tab: it asks the server what the runs are doing, once a second while one goes on, and draws only what changed. */

const PACE = { going: 1000, quiet: 5000, lost: 3000 }; // milliseconds between two questions

/**
 * new TrainTab(element, {locales, palette, language, plotly, server, page}). `server` offers state, begin, act and pack (see
 * specviz/ui/tabs/train.py); `page` offers use(name), which chooses heads in the player, and download(path).
 */
class TrainTab extends Tab {
  constructor(element, given) {
    super("train", given);
    Object.assign(this, { visible: false, state: null, shown: null, run: null, chosen: null, fault: null, asking: null, exporting: null, lost: false });
    this.news = el("div.sv-hidden", { role: "status", "aria-live": "polite" });
    this.silent = el("p.sv-train-lost", { role: "alert", hidden: true });
    const charts = ["losses", "accuracies"].map((name) => new TrainChart(this, name, "measured"));
    this.build(element, [new StartCard(this, "start"), new RunCard(this, "run", "measured"), ...charts, new RunsCard(this, "runs", "measured")], this.news);
    this.grid.prepend(this.silent);
    document.addEventListener("visibilitychange", () => this.visible && !document.hidden && this.look());
  }

  keys(card) {
    return { title: `train.title_${card}`, caption: `train.caption_${card}`, origin: `train.origin_${card}`, empty: `train.empty_${card}` };
  }

  /** Nobody asks while nobody looks. */
  show(on) {
    super.show(on);
    this.visible = on;
    clearTimeout(this.later);
    if (on) this.look();
  }

  draw() {
    setAttr(this.silent, "hidden", !this.lost);
    if (this.state) super.draw();
  }

  label() {
    super.label();
    setText(this.silent, this.words.say("train.no_server"));
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

function mountTrain(gradio, plotlyPath) {
  const page = {
    use: (name) => {
      window.specvizTrain.wanted = name; // read by the event that this button triggers (specviz/ui/tabs/train.py)
      document.getElementById("use-heads").click();
    },
    download: (path, file) => el("a", { href: plotlyUrl(path), download: file }).click(),
  };
  window.specvizTrain = mountTab(TrainTab, "train", gradio, plotlyPath, page);
}
