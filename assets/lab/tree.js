/* The tree itself: grown by a slider, changed by mouse or keyboard, and said in words and numbers. */

class TreeCard extends TabCard {
  get columns() {
    return ["@lab.col_node", "@lab.col_path", "@lab.col_depth", "@lab.col_accuracy", "@lab.col_value", "@lab.col_position", "@lab.col_sees", "@lab.col_accepted"];
  }

  build() {
    super.build();
    this.play = iconButton("play", () => this.tab.play(!this.tab.playing));
    this.slider = el("input.sv-slider.sv-lab-grow", { type: "range", min: 0, max: 64, step: 1, oninput: () => this.tab.toSize(Number(this.slider.value)) });
    this.size = el("output.sv-lab-size");
    this.horizons = [64, 256].map((most) => el("button.sv-chip", { type: "button", onclick: () => this.tab.reach(most) }, String(most)));
    const bar = el("div.sv-lab-bar", null, this.play, el("div.sv-track", null, this.slider), this.size, el("div.sv-lab-chips", null, this.horizons));
    this.picture = new TreePicture(this.tab, (node) => this.inWords(node));
    this.host = this.picture.host;
    this.host.addEventListener("keydown", (event) => this.pressed(event));
    this.told = el("p.sv-lab-told", { id: "lab-told", "aria-live": "polite" });
    this.add = [0, 1].map((i) => el("button.sv-chip", { type: "button", onclick: () => this.tab.addOffer(i) }));
    this.remove = el("button.sv-chip", { type: "button", onclick: () => this.tab.removeNode() });
    this.undo = el("button.sv-chip", { type: "button", onclick: () => this.tab.undo() });
    this.best = el("button.sv-chip", { type: "button", onclick: () => this.tab.addNode(this.tab.best?.path) });
    this.path = el("input.sv-lab-path", { type: "text", id: "lab-path", placeholder: "0,1,0", autocomplete: "off", spellcheck: "false", onkeydown: (event) => event.key === "Enter" && this.addTyped() });
    this.typed = el("button.sv-chip", { type: "button", onclick: () => this.addTyped() });
    this.said = el("p.sv-lab-said", { role: "status", "aria-live": "polite" });
    const actions = el("div.sv-lab-actions", null, this.add, this.remove, this.best, this.undo, el("span.sv-lab-typed", null, this.path, this.typed));
    this.body.append(bar, this.host, this.told, actions);
    this.root.append(this.said); // a refusal is seen beside the table, too
  }

  label() {
    super.label();
    this.host.setAttribute("aria-roledescription", this.say("lab.picture"));
    this.path.setAttribute("aria-label", this.say("lab.path"));
    setText(this.typed, this.say("lab.add_typed"));
    setText(this.undo, this.say("lab.undo"));
    this.slider.setAttribute("aria-label", this.say("lab.size"));
    this.horizons.forEach((chip) => chip.setAttribute("aria-label", this.say("lab.reach", { size: chip.textContent })));
  }

  caption() {
    return this.say("lab.caption_tree", { heads: this.tab.heads });
  }

  update() {
    const { tab: lab } = this;
    if (!lab.grown) return;
    this.control();
    this.tell();
    setText(this.said, lab.message ? this.say(lab.message.key, lab.message.args) : "");
    setAttr(this.said, "data-kind", lab.message?.kind ?? null);
    if (this.asTable) return;
    this.picture.draw();
    this.host.setAttribute("aria-label", this.size.textContent);
  }

  control() {
    const { tab: lab } = this;
    this.slider.max = Math.min(lab.horizon, lab.grown.order.length);
    this.slider.value = lab.size ?? Math.min(lab.tree.length, Number(this.slider.max));
    setFlag(this.slider, "sv-void", lab.size === null);
    const counted = { candidates: lab.tree.length, expected: number(lab.expected.value, 4) };
    const key = lab.size === null ? "lab.size_edited" : "lab.size_grown";
    const beyond = lab.expected.unknown ? this.say("lab.unknown", { count: lab.expected.unknown }) : "";
    setText(this.size, [this.say(key, counted), beyond].join(" ").trim());
    this.slider.setAttribute("aria-valuetext", this.size.textContent);
    this.play.replaceChildren(icon(lab.playing ? "pause" : "play"));
    this.play.setAttribute("aria-label", this.say(lab.playing ? "lab.pause" : "lab.play"));
    this.horizons.forEach((chip) => chip.setAttribute("aria-pressed", String(Number(chip.textContent) === lab.horizon)));
  }

  // ---- words --------------------------------------------------------------------------------------------------------------------

  /** The node in focus in one line, with the product that its value is. */
  tell() {
    const { tab: lab } = this;
    setText(this.told, this.inWords(lab.focus));
    const [child, sibling] = lab.offers();
    [child, sibling].forEach((path, i) => {
      this.add[i].disabled = !path;
      setText(this.add[i], this.say(["lab.add_child", "lab.add_sibling"][i], { path: path ? textOf(path) : "–" }));
    });
    const below = lab.node ? lab.tree.filter((path) => isBelow(path, lab.tree[lab.node - 1])).length : 0;
    this.remove.disabled = !lab.node;
    setText(this.remove, this.say(below ? "lab.remove_below" : "lab.remove", { below }));
    this.best.disabled = !lab.best;
    setText(this.best, this.say("lab.add_best", lab.best ? { path: textOf(lab.best.path), gain: number(lab.best.chance, 2) } : { path: "–", gain: "–" }));
    this.undo.disabled = !lab.before.length;
  }

  inWords(node) {
    const { tab: lab } = this;
    if (!node) return this.say("lab.told_root", { count: lab.tree.length });
    const path = lab.tree[node - 1];
    const factors = path.map((rank, depth) => number(lab.grown.accuracies[depth]?.[rank] ?? null, 3)).join(" × ");
    const value = number(lab.chances[node - 1], 3);
    const args = { path: textOf(path), depth: path.length, rank: path.at(-1) + 1, product: path.length > 1 ? `${factors} = ${value}` : value };
    if (!lab.judged) return this.say("lab.told", args);
    return this.say("lab.told_judged", { ...args, accepted: lab.judged.accepted[textOf(path)] || 0, steps: lab.judged.judged.length });
  }

  rows() {
    const { tab: lab } = this;
    const { parents } = lab;
    return lineages(parents).map((sees, i) => {
      const path = i ? lab.tree[i - 1] : [];
      const accuracy = i ? lab.grown.accuracies[path.length - 1]?.[path.at(-1)] : null;
      const accepted = lab.judged && i ? lab.judged.accepted[textOf(path)] || 0 : null;
      const cells = [i, i ? textOf(path) : this.say("lab.root"), path.length, accuracy, i ? lab.chances[i - 1] : null, position(path.length), sees.join(" "), accepted];
      return { cells, now: i === lab.node };
    });
  }

  // ---- mouse and keyboard -------------------------------------------------------------------------------------------------------

  pressed(event) {
    if (event.ctrlKey || event.metaKey ? event.key !== "z" : event.altKey) return;
    const { tab: lab } = this;
    const moves = {
      ArrowUp: () => lab.move("up"), ArrowDown: () => lab.move("down"), ArrowLeft: () => lab.move("parent"), ArrowRight: () => lab.move("child"),
      Enter: () => lab.addOffer(0), "+": () => lab.addOffer(0), s: () => lab.addOffer(1),
      Delete: () => lab.removeNode(), Backspace: () => lab.removeNode(), z: () => lab.undo(),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }

  addTyped() {
    const numbers = this.path.value.replace(/[[\]()\s]/g, "").split(",").filter((part) => part !== "");
    this.tab.addNode(numbers.map(Number));
  }
}

/** A position id, counted from that of the root. */
function position(depth) {
  return depth ? `t+${depth}` : "t";
}
