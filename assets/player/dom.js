/* Small helpers around the DOM. Text of a model enters the page here and only here: as textContent, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings become text nodes, null and false are left out. */
function el(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.className = classes.join(" ");
  assign(node, attributes);
  add(node, children);
  return node;
}

/** The same for an SVG element. */
function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  assign(node, attributes);
  add(node, children);
  return node;
}

function assign(node, attributes) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
}

function add(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
}

/** Set the text only where it changed: an equal write would still cost a layout. */
function setText(node, text) {
  if (node.firstChild && node.firstChild.nodeType === 3 && !node.firstChild.nextSibling) {
    if (node.firstChild.data !== text) node.firstChild.data = text;
  } else node.textContent = text;
}

function setFlag(node, name, on) {
  if (node.classList.contains(name) !== Boolean(on)) node.classList.toggle(name, Boolean(on));
}

function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const SIZES = new WeakMap();
const SIZER = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    SIZES.set(target, { wide: Math.round(contentRect.width), high: Math.round(contentRect.height) });
    target.dispatchEvent(new Event("sv-size"));
  }
});

/** Keep the size of an element at hand, and tell when it changes: asking the page for it between two drawings costs a layout each time. */
function watchSize(node, changed) {
  node.addEventListener("sv-size", changed);
  SIZER.observe(node);
}

/** {wide, high} of a watched element in pixels; 0 before it was laid out. */
function sizeOf(node) {
  return SIZES.get(node) || { wide: 0, high: 0 };
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

const ICONS = {
  first: "M5 4v12M16 4 8 10l8 6z",
  prev: "M14 4 6 10l8 6z",
  play: "M6 3.5v13l11-6.5z",
  pause: "M6 4v12M14 4v12",
  next: "M6 4l8 6-8 6z",
  last: "M15 4v12M4 4l8 6-8 6z",
  table: "M3.5 4.5h13v11h-13zM3.5 8.2h13M3.5 11.8h13M8 4.5v11",
  chart: "M3.5 3.5v13h13M7 13V9M10.5 13V6M14 13v-3",
  close: "M5 5l10 10M15 5 5 15",
};

/** A 20 × 20 line icon; the element that holds it carries the name. */
function icon(name) {
  const shape = svg("path", { d: ICONS[name], "stroke-linejoin": "round", "stroke-linecap": "round" });
  return svg("svg", { viewBox: "0 0 20 20", width: 16, height: 16, class: `sv-icon sv-icon-${name}`, "aria-hidden": "true" }, shape);
}

/** A button whose only content is an icon. */
function iconButton(name, onclick) {
  return el("button.sv-ibtn", { type: "button", onclick }, icon(name));
}
