/* Drawing of the two figures that change with every step. They are drawn here as SVG whose elements are kept and moved, from the same figures
   that plotly would draw: a 64-node tree costs plotly.js about 40 ms of script, layout and paint a step, and this a tenth of it. */

/** Paths of the signs, for a mark of size 2 (radius 1) around the origin; plotly's names. */
const SIGN_PATHS = {
  circle: "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  square: "M-.9-.9H.9V.9H-.9Z",
  diamond: "M0-1.3L1 0L0 1.3L-1 0Z",
  star: "M0-1.3L.33-.43L1.24-.4L.53 .16L.76 1.05L0 .54L-.76 1.05L-.53 .16L-1.24-.4L-.33-.43Z",
  "x-thin": "M-.8-.8L.8 .8M-.8 .8L.8-.8",
  "triangle-up": "M0-1.2L1.1 .8H-1.1Z",
};

/** A pool of SVG elements of one kind inside one group: `next()` hands out the next one, `rest()` hides those left over. */
class Pool {
  constructor(group, make) {
    this.group = group;
    this.make = make;
    this.all = [];
    this.used = 0;
  }

  start() {
    this.used = 0;
    return this;
  }

  next() {
    const element = (this.all[this.used] ||= this.grow());
    this.used += 1;
    setAttr(element, "visibility", null);
    return element;
  }

  grow() {
    const element = this.make();
    this.group.append(element);
    return element;
  }

  rest() {
    for (let i = this.used; i < this.all.length; i += 1) setAttr(this.all[i], "visibility", "hidden");
  }
}

/** Put a sign at a place, looking like a state of the palette. */
function putSign(element, x, y, sign, size, colours) {
  setAttr(element, "d", SIGN_PATHS[sign.symbol] || SIGN_PATHS.circle);
  setAttr(element, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${(size / 2).toFixed(2)})`);
  setAttr(element, "fill", sign.symbol === "x-thin" ? "none" : colours[sign.fill]);
  setAttr(element, "stroke", colours[sign.colour]);
}

function makeSign() {
  return svg("path", { class: "sv-mark", "vector-effect": "non-scaling-stroke" });
}

/** Round steps for an axis from 0 to `top`: about `count` of them. */
function ticks(top, count) {
  const raw = top / count;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= raw * 0.999);
  const found = [];
  for (let i = 0; i * step <= top * 1.0001; i += 1) found.push(Number((i * step).toPrecision(6)));
  return found;
}

/** The part of a text that fits into `room` pixels at about `size` pixels a letter. */
function fitting(text, room, size) {
  let used = 0;
  let kept = "";
  for (const character of text) {
    used += size * (/[\u1100-\u115f\u2e80-\uffdc\u{1f300}-\u{1faff}]/u.test(character) ? 1.05 : 0.58);
    if (used > room) return kept.length > 1 ? kept.slice(0, -1) + "…" : kept && "…";
    kept += character;
  }
  return kept;
}

/** A cleared canvas of w × h CSS pixels and its pen. */
function sized(canvas, w, h) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, w, h);
  return pen;
}
