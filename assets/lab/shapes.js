/* Trees as lists of rank paths, without a drawing: the twin of specviz/analysis/trees.py and of what specviz/engine/tree.py says of a shape.
   A path is a list of ranks, the root is []. A test holds the two together. */

const keyOf = (path) => path.join(",");
const textOf = (path) => `[${path.join(",")}]`;

/** By length, then by rank: the order of nodes in the engine. */
function byDepth(a, b) {
  if (a.length !== b.length) return a.length - b.length;
  const at = a.findIndex((rank, i) => rank !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
}

function sortedShape(paths) {
  return [...paths].sort(byDepth);
}

/** The published choices format, as the engine writes it. */
function choicesText(shape) {
  return `[${sortedShape(shape).map(textOf).join(",")}]`;
}

/** The parent of every node of a sorted shape; node 0 is the root. */
function parentsOf(shape) {
  const index = new Map([["", 0], ...shape.map((path, i) => [keyOf(path), i + 1])]);
  return [-1, ...shape.map((path) => index.get(keyOf(path.slice(0, -1))))];
}

/** The columns that every row of the tree attention mask sees: its ancestors and itself, ascending. */
function lineages(parents) {
  const cells = [];
  parents.forEach((parent, i) => cells.push(i ? [...cells[parent], i] : [0]));
  return cells;
}

/** Π accuracies[depth][rank] along a path: the chance that the candidate is right; null where one of them is not known. */
function chanceOf(path, accuracies) {
  let chance = 1;
  for (const [depth, rank] of path.entries()) {
    const known = accuracies[depth]?.[rank];
    if (known === undefined) return null;
    chance *= known;
  }
  return chance;
}

/** {value: 1 + Σ chances, unknown: candidates whose chance nobody measured; they count as 0}. */
function expectedOf(shape, accuracies) {
  const chances = shape.map((path) => chanceOf(path, accuracies));
  return { value: 1 + chances.reduce((sum, chance) => sum + (chance ?? 0), 0), unknown: chances.filter((chance) => chance === null).length };
}

/** Candidates by depth of the tree of all combinations; the last is the number of its paths. */
function fullCounts(widths) {
  let level = 1;
  return widths.map((width) => (level *= width));
}

/** What that tree should yield; null where an accuracy is not known. */
function fullExpected(widths, accuracies) {
  let passed = 1;
  let sum = 1;
  for (const [depth, width] of widths.entries()) {
    const row = accuracies[depth];
    if (!row || width > row.length) return null;
    passed *= row.slice(0, width).reduce((total, share) => total + share, 0);
    sum += passed;
  }
  return sum;
}

/** Every path of the tree of all combinations. */
function fullShape(widths) {
  let level = [[]];
  return widths.flatMap((width) => (level = level.flatMap((path) => Array.from({ length: width }, (_, rank) => [...path, rank]))));
}

/** Candidates of a shape by depth. */
function depthCounts(shape) {
  const counts = [];
  for (const path of shape) counts[path.length - 1] = (counts[path.length - 1] || 0) + 1;
  return counts;
}

/** The best child of a node that is not in the tree yet. */
function nextChild(keys, path) {
  let rank = 0;
  while (keys.has(keyOf([...path, rank]))) rank += 1;
  return [...path, rank];
}

/** Whether `path` lies below `top`. */
function isBelow(path, top) {
  return path.length > top.length && top.every((rank, i) => path[i] === rank);
}

/** A shape with one more candidate: {shape}, or {refused: {key, args}}. */
function withNode(shape, path, heads) {
  const keys = new Set(shape.map(keyOf));
  const parent = path.slice(0, -1);
  if (!path.length || path.some((rank) => !Number.isInteger(rank) || rank < 0)) return { refused: { key: "lab.not_path" } };
  if (keys.has(keyOf(path))) return { refused: { key: "lab.there_already", args: { path: textOf(path) } } };
  if (path.length > heads) return { refused: { key: "lab.too_deep", args: { path: textOf(path), levels: path.length, heads } } };
  if (parent.length && !keys.has(keyOf(parent))) return { refused: { key: "lab.no_parent", args: { path: textOf(path), parent: textOf(parent) } } };
  return { shape: sortedShape([...shape, path]) };
}

/** A shape without a candidate and without everything below it: {shape, gone: how many were below}. */
function withoutNode(shape, path) {
  const gone = shape.filter((other) => isBelow(other, path));
  return { shape: shape.filter((other) => !isBelow(other, path) && keyOf(other) !== keyOf(path)), gone: gone.length };
}

/** The candidate outside of the tree that adds most: the next sibling or first child with the best chance; null where none is known. */
function bestNext(shape, accuracies) {
  const keys = new Set(shape.map(keyOf));
  let best = null;
  for (const parent of [[], ...shape]) {
    const path = nextChild(keys, parent);
    const chance = chanceOf(path, accuracies);
    if (chance !== null && (!best || chance > best.chance)) best = { path, chance };
  }
  return best;
}
