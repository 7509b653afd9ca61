/* Where we are in the run: the buttons, the slider over a lane that shows what every step committed, the sub-steps, the time of the step. */

const PLAY_MS = 900; // a step while playing; slow enough to read the verdicts

class Transport {
  constructor(player) {
    this.player = player;
    this.store = player.store;
    this.visible = true;
    this.build();
  }

  say(key, args) {
    return this.player.words.say(key, args);
  }

  build() {
    const { store } = this;
    this.buttons = {
      first: iconButton("first", () => store.seek(0)),
      prev: iconButton("prev", () => store.seek(store.step - 1)),
      play: iconButton("play", () => this.toggle()),
      next: iconButton("next", () => store.seek(store.step + 1)),
      last: iconButton("last", () => store.seek(Infinity)),
    };
    for (const [name, button] of Object.entries(this.buttons)) {
      this.player.tip(button, () => this.say(name === "play" && store.playing ? "player.pause" : `player.${name}`));
    }
    this.lane = el("canvas.sv-lane", { "aria-hidden": "true" });
    this.slider = el("input.sv-slider", { type: "range", min: 0, max: 0, step: 1, value: 0, oninput: () => store.seek(Number(this.slider.value)) });
    this.where = el("span.sv-where");
    this.substeps = SUBSTEPS.map((name) => el("button.sv-seg", { type: "button", "data-substep": name, onclick: () => store.toSubstep(name) }));
    this.substeps.forEach((button) => this.player.tip(button, () => this.say(`player.means_${button.dataset.substep}`)));
    this.segments = el("div.sv-segs", { role: "group" }, this.substeps);
    this.follow = el("button.sv-chip", { type: "button", hidden: true, onclick: () => store.followLive() });
    this.split = el("div.sv-split", { "aria-hidden": "true" }, ...["propose", "verify", "commit"].map((part) => el(`i.sv-part-${part}`)));
    this.time = el("span.sv-time");
    this.player.tip(this.split, () => this.timeTip());
    const track = el("div.sv-track", null, this.lane, this.slider);
    const left = el("div.sv-buttons", null, Object.values(this.buttons));
    this.help = el("button.sv-ibtn.sv-help", { type: "button", onclick: () => this.player.help.toggle() }, "?");
    this.player.tip(this.help, () => this.say("player.help"));
    this.root = el("section.sv-card.sv-bar", { role: "toolbar" },
      left, track, this.where, this.follow, this.segments, el("div.sv-took", null, this.split, this.time), this.help);
  }

  toggle(on = !this.store.playing) {
    const { store } = this;
    clearInterval(this.timer);
    store.playing = Boolean(on) && store.steps.length > 1;
    if (store.playing) {
      if (store.step >= store.steps.length - 1) store.seek(0, "commit");
      else store.seek(store.step, "commit");
      this.timer = setInterval(() => this.tick(), PLAY_MS);
    }
    store.change("playing");
  }

  tick() {
    const { store } = this;
    if (!store.playing || store.step >= store.steps.length - 1) return void this.toggle(false);
    store.seek(store.step + 1);
  }

  refresh(changed) {
    const has = (...names) => changed.has("all") || names.some((name) => changed.has(name));
    if (has("run", "language")) this.label();
    if (has("run", "steps", "step", "language", "playing")) this.position();
    if (has("run", "steps", "step", "rule", "theme", "size")) this.drawLane();
    if (has("run", "step", "language", "steps")) this.timing();
  }

  label() {
    for (const [name, button] of Object.entries(this.buttons)) button.setAttribute("aria-label", this.say(`player.${name}`));
    this.slider.setAttribute("aria-label", this.say("player.slider"));
    this.segments.setAttribute("aria-label", this.say("player.substeps"));
    this.root.setAttribute("aria-label", this.say("player.transport"));
    this.help.setAttribute("aria-label", this.say("player.help"));
    this.substeps.forEach((button) => setText(button, this.say(`player.${button.dataset.substep}`)));
  }

  position() {
    const { store } = this;
    const count = store.steps.length;
    const none = count === 0;
    this.slider.max = Math.max(0, count - 1);
    this.slider.value = Math.max(0, store.step);
    this.slider.disabled = none;
    const at = this.say("player.step", { step: none ? "–" : store.step + 1, steps: none ? "–" : count });
    this.slider.setAttribute("aria-valuetext", at);
    setText(this.where, at);
    const { first, prev, play, next, last } = this.buttons;
    for (const button of [first, prev]) button.disabled = store.step <= 0;
    for (const button of [next, last]) button.disabled = store.step >= count - 1;
    play.disabled = count < 2;
    if (play.dataset.shows !== String(store.playing)) {
      play.dataset.shows = String(store.playing);
      play.replaceChildren(icon(store.playing ? "pause" : "play"));
    }
    play.setAttribute("aria-label", this.say(store.playing ? "player.pause" : "player.play"));
    this.substeps.forEach((button) => {
      button.setAttribute("aria-pressed", String(!none && button.dataset.substep === store.substep));
      button.disabled = none;
    });
    const away = Boolean(store.run?.live) && !store.run.done && !store.follow && !none;
    setAttr(this.follow, "hidden", away ? null : true);
    if (away) setText(this.follow, this.say("player.follow", { steps: count }));
  }

  /** One column a step: as high as the tokens it committed, with the extra token on top in the colour of its kind. */
  drawLane() {
    const { store, lane, player } = this;
    const { wide, high } = sizeOf(lane);
    if (!wide || !high) return;
    const pen = sized(lane, wide, high);
    const count = store.steps.length;
    if (!count) return;
    const most = Math.max(2, ...store.steps.map(({ step }) => step.emitted.length));
    const inset = 8; // half of the slider's thumb: its centre runs from here to the other end
    const pitch = count > 1 ? (wide - 2 * inset) / (count - 1) : 0;
    const thick = clamp(pitch - (pitch > 4 ? 2 : 0.5), 1, 10);
    const unit = (high - 2) / most;
    for (let i = 0; i < count; i += 1) {
      const x = inset + pitch * i - thick / 2;
      pen.globalAlpha = !store.comparable(i) ? 0.15 : i === store.step ? 1 : 0.4;
      let y = high;
      const unseen = store.substep !== "commit" && i >= store.step; // who predicts must not read the outcome here
      for (const token of unseen ? [{ kind: "edge" }] : store.judged(i).tokens) {
        pen.fillStyle = player.colours[token.kind];
        pen.fillRect(x, y - unit + (unit > 3 ? 1 : 0), thick, Math.max(1, unit - (unit > 3 ? 1 : 0)));
        y -= unit;
      }
    }
    pen.globalAlpha = 1;
    if (store.differs >= 0) {
      pen.fillStyle = player.colours.refused;
      const x = inset + pitch * store.differs;
      pen.beginPath();
      pen.moveTo(x - 5, 0);
      pen.lineTo(x + 5, 0);
      pen.lineTo(x, 7);
      pen.fill();
    }
  }

  timing() {
    const step = this.store.current?.step;
    setAttr(this.split, "hidden", step ? null : true);
    if (!step) return void setText(this.time, "");
    const { propose, verify, commit } = step.seconds;
    const total = propose + verify + commit || 1;
    [propose, verify, commit].forEach((part, i) => (this.split.children[i].style.flexGrow = part / total));
    setText(this.time, this.say("player.time", { parts: [propose, verify, commit].map(milliseconds).join(" | ") }));
  }

  timeTip() {
    const step = this.store.current?.step;
    if (!step) return "";
    const { propose, verify, commit } = step.seconds;
    return this.say("player.time_tip", { propose: milliseconds(propose), verify: milliseconds(verify), commit: milliseconds(commit) });
  }
}
