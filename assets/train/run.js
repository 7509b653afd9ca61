/* The form that begins a run, and the run on show: its phases, its clock, its rates, and what can be done with it. */

const PHASES = ["corpus", "training", "calibrating"];

class StartCard extends TabCard {
  build() {
    super.build();
    this.line = el("p.sv-train-line");
    this.pair = el("select", { id: "train-pair" });
    this.pairName = el("label", { for: "train-pair" });
    this.minutes = el("input", { id: "train-minutes", type: "number", min: 1, max: 1440, step: 1, value: 10, inputmode: "decimal" });
    this.minutesName = el("label", { for: "train-minutes" });
    this.go = el("button.sv-train-go", { type: "submit", id: "train-begin" });
    this.why = el("p.sv-train-why", { role: "alert" });
    const fields = [[this.pairName, this.pair], [this.minutesName, this.minutes]].map((parts) => el("div.sv-train-field", null, parts));
    this.form = el("form", { novalidate: true, onsubmit: (event) => this.submit(event) }, fields, this.go);
    this.body.append(this.line, this.form, this.why);
  }

  label() {
    super.label();
    setText(this.line, this.say("train.line"));
    setText(this.pairName, this.say("train.pair"));
    setText(this.minutesName, this.say("train.minutes"));
    setText(this.go, this.say("train.begin"));
  }

  caption() {
    return "";
  }

  submit(event) {
    event.preventDefault();
    if (!this.go.disabled) this.tab.begin(this.pair.value, this.minutes.value);
  }

  update() {
    const { state, asking, fault } = this.tab;
    if (this.pair.options.length !== state.pairs.length) {
      this.pair.replaceChildren(...state.pairs.map(([label, name]) => el("option", { value: name }, label)));
    }
    const reason = state.off || (state.current ? { key: "train.busy" } : null);
    const off = Boolean(reason || asking);
    if (this.go.disabled !== off) this.go.disabled = off;
    const said = fault || reason;
    setText(this.why, said ? this.say(said.key, said.args) : "");
    setFlag(this.why, "sv-train-fault", fault);
  }
}

class RunCard extends TabCard {
  build() {
    super.build();
    this.blank = el("p.sv-wait");
    this.said = el("p.sv-train-said");
    this.steps = PHASES.map((name) => {
      const fill = el("i");
      const sign = el("span.sv-train-sign", { "aria-hidden": "true" });
      const text = el("span");
      return { name, fill, sign, text, root: el("li", null, el("div.sv-train-bar", null, fill), el("p", null, sign, text)) };
    });
    this.list = el("ol.sv-train-phases", null, this.steps.map(({ root }) => root));
    this.numbers = el("dl.sv-train-numbers");
    this.buttons = ["stop", "resume", "use"].map((name) => {
      const button = el(`button.sv-train-act`, { type: "button", id: `train-${name}`, onclick: () => this.tab.act(name, this.tab.run.name) });
      return [name, button];
    });
    this.acts = el("div.sv-train-acts", null, this.buttons.map(([, button]) => button));
    this.full = el("div.sv-train-run", null, this.said, this.list, this.numbers, this.acts);
    this.body.append(this.blank, this.full);
  }

  label() {
    super.label();
    for (const [name, button] of this.buttons) setText(button, this.say(`train.${name}`));
    for (const { name, text } of this.steps) setText(text, this.say(`train.phase_${name}`));
    setText(this.blank, this.say("train.empty_run"));
    this.cells = null;
  }

  caption() {
    const { run } = this.tab;
    return run ? this.say("train.caption_run", { pair: this.tab.nameOf(run.pair), when: this.tab.when(run), minutes: run.minutes }) : "";
  }

  update() {
    const { run } = this.tab;
    setAttr(this.blank, "hidden", run ? true : null);
    setAttr(this.full, "hidden", run ? null : true);
    if (!run) return;
    setText(this.said, sentenceOf(run, this.tab));
    setFlag(this.said, "sv-train-fault", run.phase === "failed" || run.phase === "interrupted");
    this.phases(run);
    this.count(run);
    const offered = { stop: run.going, resume: run.resumable && !this.tab.state.current && !this.tab.state.off, use: run.usable };
    for (const [name, button] of this.buttons) {
      setAttr(button, "hidden", offered[name] ? null : true);
      const off = this.tab.asking || (name === "stop" && run.stopping);
      if (button.disabled !== Boolean(off)) button.disabled = Boolean(off);
    }
  }

  /** Three bars, wider where a phase has a larger share of the budget: full when a phase is over, and as far as the clock says while it goes on. */
  phases(run) {
    const at = run.phase === "done" ? 3 : PHASES.indexOf(run.at);
    for (const [i, { name, fill, sign, root }] of this.steps.entries()) {
      const now = i === at && !(run.phase === "loading" && !run.seconds);
      const share = i < at ? 1 : now ? progressOf(run, name, this.tab.state.shares) : 0;
      root.style.setProperty("--share", Math.max(0.16, this.tab.state.shares[name]));
      fill.style.width = `${(100 * share).toFixed(1)}%`;
      setText(sign, i < at ? "✓ " : now ? (run.going ? "● " : "◐ ") : "○ ");
      setAttr(root, "aria-current", now && run.going ? "step" : null);
      setFlag(root, "sv-train-over", i < at);
    }
  }

  count(run) {
    const { corpus, training, calibrating } = run;
    const rate = (part) => (part.tokens && part.seconds ? this.say("train.rate", { tokens: grouped(part.tokens), rate: number(part.tokens / part.seconds, 3) }) : "–");
    const left = run.going ? clockOf(60 * run.minutes - run.seconds) : "–";
    const answers = calibrating.prompts ? this.say("train.answers", { prompts: calibrating.prompts, length: calibrating.length }) : "–";
    const cells = [["elapsed", clockOf(run.seconds)], ["left", left], ["texts", rate(corpus)], ["learned", rate(training)], ["calibration", answers]];
    if (!this.cells) {
      this.cells = cells.map(([name]) => [el("dt", null, this.say(`train.number_${name}`)), el("dd")]);
      this.numbers.replaceChildren(...this.cells.map((pair) => el("div", null, pair)));
    }
    cells.forEach(([, text], i) => setText(this.cells[i][1], text));
  }
}

/** How much of a phase is over: by the clock of the budget, where it has one of its own by that. */
function progressOf(run, name, shares) {
  if (name === "corpus") return clamp(run.seconds / (60 * run.minutes * shares.corpus), 0, 1);
  return clamp((name === "training" ? run.training.done : run.calibrating.done) || 0, 0, 1);
}

/** What a run is doing, or how it ended, in one sentence. */
function sentenceOf(run, tab) {
  if (run.phase === "failed" && run.fault) return tab.words.say(run.fault.key, run.fault.args);
  if (run.stopping) return tab.words.say("train.said_stopping");
  const kept = run.usable ? "" : "_empty";
  if (run.phase === "stopped" || run.phase === "interrupted") return tab.words.say(`train.said_${run.phase}${kept}`, { output: run.output });
  return tab.words.say(`train.said_${run.phase}`);
}
