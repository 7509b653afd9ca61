/* The tree attention mask and the position ids of the tree on show: they follow every change. */

const LAB_STRIP = 14; // pixels of the condensed context at the left

class LabMaskCard extends TabCard {
  get columns() {
    return ["@lab.col_node", "@lab.col_path", "@lab.col_position", "@lab.col_sees"];
  }

  build() {
    super.build();
    this.canvas = el("canvas.sv-mask", { role: "img" });
    this.frame = el("div.sv-maskframe", null, this.canvas);
    this.foot = el("p.sv-lab-note");
    this.body.append(this.frame, this.foot);
    this.canvas.addEventListener("mousemove", (event) => this.tab.point(this.under(event)));
    this.canvas.addEventListener("mouseleave", () => this.tab.point(null));
    this.canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node !== null) this.tab.select(node);
    });
    watchSize(this.frame, () => this.tab.invalidate());
  }

  under(event) {
    const { cell, count } = this.grid || {};
    const row = cell ? Math.floor(event.offsetY / cell) : -1;
    return row >= 0 && row < count ? row : null;
  }

  update() {
    const { tab: lab } = this;
    if (!lab.grown) return;
    const cells = lineages(lab.parents);
    const focus = Math.min(lab.focus, cells.length - 1);
    const depth = cells[focus].length - 1;
    const name = (node) => (node ? textOf(lab.tree[node - 1]) : this.say("lab.root"));
    const sees = cells[focus].slice(0, -1).map(name).join(", ");
    setText(this.foot, this.say(focus ? "lab.mask_sees" : "lab.mask_root", { node: focus, path: name(focus), position: position(depth), sees }));
    this.canvas.setAttribute("aria-label", this.foot.textContent);
    if (!this.asTable) this.draw(cells, focus);
  }

  draw(cells, focus) {
    const { wide, high } = sizeOf(this.frame);
    const count = cells.length;
    const side = Math.min(wide - LAB_STRIP - 4, high);
    if (side < 20) return;
    const cell = Math.min(side / count, 30);
    const [size, left] = [cell * count, LAB_STRIP + 4];
    this.grid = { cell, count };
    const pen = sized(this.canvas, left + size, size);
    this.canvas.style.width = `${left + size}px`;
    this.canvas.style.height = `${size}px`;
    const { colours } = this.tab;
    const gap = cell > 5 ? 1.2 : cell > 3 ? 0.6 : 0;
    pen.fillStyle = colours.grid;
    pen.fillRect(left, 0, size, size);
    pen.fillStyle = colours.accent_pale;
    pen.fillRect(left, focus * cell, size, cell);
    pen.fillRect(left + focus * cell, 0, cell, size);
    const path = new Set(cells[focus]);
    cells.forEach((columns, row) => {
      for (const column of columns) {
        const lit = row === focus || column === focus;
        pen.fillStyle = lit ? colours.accent : colours.p;
        pen.globalAlpha = lit || path.has(row) ? 1 : 0.72;
        pen.fillRect(left + column * cell + gap / 2, row * cell + gap / 2, cell - gap, cell - gap);
      }
      pen.globalAlpha = row === focus ? 1 : 0.45;
      pen.fillStyle = row === focus ? colours.accent : colours.p;
      pen.fillRect(0, row * cell + gap / 2, LAB_STRIP, cell - gap);
    });
    pen.globalAlpha = 1;
  }

  rows() {
    const { tab: lab } = this;
    return lineages(lab.parents).map((sees, i) => ({
      cells: [i, i ? textOf(lab.tree[i - 1]) : this.say("lab.root"), position(sees.length - 1), sees.join(" ")], now: i === lab.node,
    }));
  }
}
