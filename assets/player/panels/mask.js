/* The tree attention mask, cell by cell, on a canvas: row i sees the whole cached context and, of the tree, its ancestors and itself. */

const STRIP = 16; // pixels of the condensed context at the left

class MaskPanel extends Panel {
  constructor(player) {
    super(player, "mask", "computed");
    this.lag = SLOW;
  }

  build() {
    super.build();
    this.canvas = el("canvas.sv-mask", { role: "img" });
    this.foot = el("p.sv-foot");
    this.above = el("p.sv-foot");
    this.frame = el("div.sv-maskframe", null, this.canvas);
    this.body.append(this.above, this.frame, this.foot);
    this.canvas.addEventListener("mousemove", (event) => this.store.point(this.under(event)));
    this.canvas.addEventListener("mouseleave", () => this.store.point(null));
    this.canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node !== null) this.store.select(node);
    });
  }

  get mask() {
    return this.store.current.figures.mask;
  }

  /** The row under the pointer. */
  under(event) {
    const { top, cell, count } = this.grid || {};
    if (!cell) return null;
    const row = Math.floor((event.offsetY - top) / cell);
    return row >= 0 && row < count ? row : null;
  }

  update(changed) {
    const { mask } = this;
    if (changed.has("step") || changed.has("steps") || changed.has("all") || changed.has("language") || changed.has("size")) {
      setText(this.above, this.say("mask.context", { cached: mask.cached }));
    }
    this.draw();
    this.tell();
  }

  /** The sentence under the square: what the row in focus sees. */
  tell() {
    const { mask } = this;
    const { tree } = this.store.current.step;
    const node = Math.min(this.store.focus, mask.cells.length - 1);
    const sees = mask.cells[node].slice(0, -1).map((column) => `“${shown(tree[column].text, 16)}”`);
    const key = sees.length ? "player.mask_sees" : "player.mask_root";
    const text = this.say(key, { node, token: literal(shown(tree[node].text, 16)), position: mask.positions[node], sees: literal(sees.join(" ")) });
    setText(this.foot, text);
    this.canvas.setAttribute("aria-label", text);
  }

  draw() {
    const { mask, store, player } = this;
    const { wide, high } = sizeOf(this.frame);
    const count = mask.cells.length;
    const side = Math.min(wide - STRIP - 4, high);
    if (side < 20) return;
    const cell = Math.min(side / count, 44);
    const size = cell * count;
    const left = STRIP + 4;
    this.grid = { top: 0, cell, count };
    const pen = sized(this.canvas, left + size, size);
    this.canvas.style.width = `${left + size}px`;
    this.canvas.style.height = `${size}px`;
    const colours = player.colours;
    const focus = Math.min(store.focus, count - 1);
    const gap = cell > 5 ? 1.2 : cell > 3 ? 0.6 : 0;
    const path = new Set(mask.cells[focus]);
    const states = store.states(store.step);
    pen.fillStyle = colours.grid;
    pen.fillRect(left, 0, size, size);
    pen.fillStyle = colours.accent_pale;
    pen.globalAlpha = 0.5;
    pen.fillRect(left, focus * cell, size, cell);
    pen.fillRect(left + focus * cell, 0, cell, size);
    pen.globalAlpha = 1;
    this.rule(pen, left, size, cell, gap, count);
    mask.cells.forEach((columns, row) => {
      for (const column of columns) {
        const lit = row === focus || (column === focus && path.size > 0);
        pen.fillStyle = lit ? colours.accent : states[row] === "accepted" && store.substep !== "propose" ? colours.accepted : colours.p;
        pen.globalAlpha = lit || path.has(row) || states[row] === "accepted" ? 1 : 0.72;
        pen.fillRect(left + column * cell + gap / 2, row * cell + gap / 2, cell - gap, cell - gap);
      }
      pen.globalAlpha = row === focus ? 1 : 0.45;
      pen.fillStyle = row === focus ? colours.accent : colours.p;
      pen.fillRect(0, row * cell + gap / 2, STRIP, cell - gap);
    });
    pen.globalAlpha = 1;
  }

  /** The lines between the cells. */
  rule(pen, left, size, cell, gap, count) {
    if (!gap) return;
    pen.fillStyle = this.player.colours.card;
    for (let i = 0; i <= count; i += 1) {
      pen.fillRect(left, i * cell - gap / 2, size, gap);
      pen.fillRect(left + i * cell - gap / 2, 0, gap, size);
    }
  }

  rows() {
    const { mask } = this;
    const { tree } = this.store.current.step;
    return mask.cells.map((columns, index) => ({
      index, token: shown(tree[index].text), position: mask.positions[index], sees: columns.join(" "), pointed: index, now: index === this.store.node,
    }));
  }
}
