/* The tree on show, tried: on a recorded run without the model, or on the model itself, in the player. */

class TrialCard extends TabCard {
  get columns() {
    return ["@lab.col_step", "@lab.col_judged", "@lab.col_own"];
  }

  build() {
    super.build();
    this.which = "recorded";
    this.runs = ["recorded", "shown"].map((which) => el("button.sv-chip", { type: "button", onclick: () => this.choose(which) }));
    this.about = el("p.sv-lab-note");
    this.ask = el("button.sv-lab-button", { type: "button", onclick: () => this.tab.judge(this.which) });
    this.verdict = el("p.sv-lab-verdict", { role: "status", "aria-live": "polite" });
    this.means = el("p.sv-lab-note");
    this.strip = svg("svg", { class: "sv-lab-strip", role: "img" });
    this.run = el("button.sv-lab-button", { type: "button", onclick: () => this.tab.decode() });
    this.runNote = el("p.sv-lab-note");
    this.body.append(el("div.sv-lab-chips", null, this.runs), this.about, el("div", null, this.ask), this.verdict, this.strip, this.means, el("hr.sv-lab-rule"), el("div", null, this.run), this.runNote);
    this.body.classList.add("sv-lab-scroll");
    watchSize(this.body, () => this.tab.invalidate());
  }

  choose(which) {
    this.which = which;
    this.tab.judged = null;
    this.tab.refused = null;
    this.tab.invalidate();
  }

  /** The run on show in the player, where it proposed something. */
  get shown() {
    const run = this.tab.runOnShow();
    return run?.steps.length && run.header?.config.method !== "plain" ? run : null;
  }

  update() {
    const { tab: lab } = this;
    const { shown } = this;
    if (!shown && this.which === "shown") this.which = "recorded";
    this.runs.forEach((chip, i) => {
      const which = ["recorded", "shown"][i];
      setText(chip, this.say(`lab.run_${which}`));
      chip.disabled = which === "shown" && !shown;
      chip.setAttribute("aria-pressed", String(this.which === which));
    });
    setText(this.about, this.which === "shown" ? this.say("lab.about_shown", { method: this.say(`control.method_${shown.header.config.method}`), steps: shown.steps.length }) : this.aboutRecorded());
    setText(this.ask, this.say(lab.judging ? "lab.judging" : "lab.judge"));
    this.ask.disabled = !lab.tree.length || lab.judging;
    setText(this.run, this.say("lab.decode", { method: this.say(`control.method_${lab.method}`) }));
    this.run.disabled = !lab.tree.length;
    setText(this.runNote, this.say(lab.source === "assumed" ? "lab.decode_assumed" : "lab.decode_note"));
    this.tell();
  }

  aboutRecorded() {
    const { recorded } = this.tab;
    if (recorded?.error) return this.say(recorded.error.key, recorded.error.args);
    return recorded ? this.say("lab.about_recorded", { ...recorded.run, rule: this.say(`player.name_${recorded.run.rule}`) }) : "";
  }

  tell() {
    const { judged, refused } = this.tab;
    setText(this.verdict, refused ? this.say(refused.key, refused.args) : judged ? this.say("lab.judged", this.figures(judged)) : "");
    setAttr(this.verdict, "data-kind", refused ? "refused" : null);
    setText(this.means, judged ? this.inWords(judged) : refused ? this.say("lab.instead") : "");
    setAttr(this.strip, "hidden", judged ? null : true);
    if (judged) this.draw(judged);
  }

  /** How the mean was found; the accuracies are set against it only where they are those of what the run was made with. */
  inWords(judged) {
    const assumed = this.tab.grown.source.name === "assumed";
    const expected = assumed ? "lab.expected_assumed" : this.tab.isOf(judged.run) ? "lab.expected" : "lab.expected_other";
    return ["lab.judged_means", expected].map((key) => this.say(key, this.figures(judged))).join(" ");
  }

  figures({ judged, mean, own_mean: own, run }) {
    return {
      steps: judged.length, mean: number(mean, 3), own: number(own, 3), candidates: this.tab.tree.length, own_candidates: run.candidates,
      rule: this.say(`player.name_${run.rule}`), temperature: number(run.temperature), expected: number(this.tab.expected.value, 3),
    };
  }

  /** A bar a step: what the run committed as an outline, what this tree would have committed filled. */
  draw({ judged, own }) {
    const { wide } = sizeOf(this.body);
    if (wide < 40) return;
    const [high, most] = [44, Math.max(...judged, ...own)];
    const pitch = wide / judged.length;
    const bar = (kind, value, i) => svg("rect", { class: `sv-lab-${kind}`, x: (i * pitch + 0.5).toFixed(1), width: Math.max(pitch - 1.5, 1).toFixed(1), y: (high - (high * value) / most).toFixed(1), height: ((high * value) / most).toFixed(1) });
    this.strip.replaceChildren(...judged.map((value, i) => bar("tried", value, i)), ...own.map((value, i) => bar("own", value, i)));
    setAttr(this.strip, "width", wide);
    setAttr(this.strip, "height", high);
    this.strip.setAttribute("aria-label", this.say("lab.strip"));
  }

  rows() {
    const { judged } = this.tab;
    return judged ? judged.judged.map((tokens, i) => ({ cells: [i + 1, tokens, judged.own[i]] })) : [];
  }
}
