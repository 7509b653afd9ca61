/* The cost model once more, in the browser: the twin of specviz/analysis/cost.py, where it is explained, so that sliders and re-judging need
   no server. A test holds the two together. */

const LONGEST = 16; // candidates of a chain: what is asked about, where the run's own chain is not longer

class CostModel {
  /** {plain, verify, draft, levels, fed, once, trees, hits, perStep, perDraft} */
  constructor(fields) {
    Object.assign(this, fields);
  }

  /** c = t_draft / t_plain */
  get ratio() {
    return this.draft.length ? this.draft[0][1] / this.plain : 0;
  }

  /** The same machine with another proposer: all its passes take ratio / (its own ratio) times as long. */
  withRatio(ratio) {
    const flat = [1, this.verify.at(-1)[0]].map((size) => [size, ratio * this.plain]); // where there is nothing to scale
    const draft = this.ratio ? this.draft.map(([size, seconds]) => [size, (seconds * ratio) / this.ratio]) : ratio ? flat : [];
    return new CostModel({ ...this, draft });
  }

  /** The tokens of each of the proposer's passes, for K levels. */
  calls(k) {
    if (!this.draft.length || k === 0) return [];
    return this.once ? [this.draft[0][0]] : [1, ...(this.fed || this.levels).slice(0, k - 1)];
  }

  /** A step of K levels, each of which is passed with chance α; null where a pass would be larger than any that was measured. */
  predict(alpha, k) {
    const rows = this.levels.slice(0, k).reduce((sum, level) => sum + level, 1);
    return this.prediction(k, rows, expectedTokens(alpha, k), this.calls(k));
  }

  /** A step of the calibrated tree of so many candidates. */
  predictTree(candidates) {
    const expected = interpolate(this.trees, candidates);
    return expected === null ? null : this.prediction(candidates, 1 + candidates, expected, this.calls(1));
  }

  /** {at, rows, expected, drafting, verifying, outside, cost, breakEven, speedup, calls} */
  prediction(at, rows, tokens, calls) {
    const drafts = calls.map((size) => interpolate(this.draft, size));
    const [verify, alone] = [interpolate(this.verify, rows), interpolate(this.verify, 1)];
    if (verify === null || alone === null || drafts.includes(null)) return null;
    const { hits, plain } = this;
    const expected = 1 + hits * (tokens - 1);
    const drafting = hits * drafts.reduce((sum, seconds) => sum + seconds, 0);
    const verifying = hits * verify + (1 - hits) * alone;
    const outside = this.perStep + hits * this.perDraft * calls.length;
    const cost = drafting + verifying + outside;
    return { at, rows, expected, drafting, verifying, outside, cost, breakEven: cost / plain, speedup: (expected * plain) / cost, calls: calls.length };
  }

  /** K = 1, 2, … as far as the passes were measured. */
  byDepth(alpha) {
    return untilUnknown(this.levels.map((_, i) => this.predict(alpha, i + 1)));
  }

  /** The calibrated trees, as far as the passes were measured. */
  bySize() {
    return untilUnknown(this.trees.map(([size]) => this.predictTree(size)));
  }

  /** The α from which on K levels are worth their time; null where not even α = 1 is enough. */
  breakEvenAlpha(k) {
    const [least, most] = [this.predict(0, k), this.predict(1, k)];
    if (!least || !most || most.speedup < 1) return null;
    let [low, high] = [0, least.speedup >= 1 ? 0 : 1];
    for (let i = 0; i < 50; i += 1) {
      const middle = (low + high) / 2;
      if (this.predict(middle, k).speedup >= 1) high = middle;
      else low = middle;
    }
    return high;
  }
}

/** The value of a measured curve [[size, value], …] at `at`, linear between its points; null outside of them. */
function interpolate(curve, at) {
  for (let i = 1; i < curve.length; i += 1) {
    const [[low, before], [high, after]] = [curve[i - 1], curve[i]];
    if (low <= at && at <= high) return before + ((after - before) * (at - low)) / (high - low);
  }
  return curve.length && curve[0][0] === at ? curve[0][1] : null;
}

/** (1 − α^(K+1)) / (1 − α), as a sum: the division would fail at 1. */
function expectedTokens(alpha, k) {
  let sum = 0;
  for (let i = 0; i <= k; i += 1) sum += alpha ** i;
  return sum;
}

function untilUnknown(predictions) {
  const end = predictions.indexOf(null);
  return end < 0 ? predictions : predictions.slice(0, end);
}

/** The one with most of `field`; the first of equals; null of none. */
function bestOf(predictions, field = "speedup") {
  return predictions.reduce((best, one) => (best && best[field] >= one[field] ? best : one), null);
}

/** α and where it comes from, {value, kind: "overlap" | "observed"}, of the counts of some steps; null where nothing was tested. */
function alphaOf(counts) {
  const expected = expectedRateOf(counts);
  if (expected !== null) return { value: Math.max(0, expected), kind: "overlap" };
  const sum = (field) => counts.depths.reduce((total, depth) => total + depth[field], 0);
  return sum("reached") ? { value: sum("accepted") / sum("reached"), kind: "observed" } : null;
}

/** The model of a run; null where its passes were not measured, or nothing was proposed. */
function costModel(header, steps) {
  const { timings, baseline, config: { method } } = header;
  const proposing = steps.filter((step) => step.tree.length > 1);
  const [verify, draft] = [measuredPasses(timings, "plain", "verify"), measuredPasses(timings, "draft")];
  if (!proposing.length || interpolate(verify, 1) === null || (["draft", "medusa"].includes(method) && !draft.length)) return null;
  return new CostModel({
    plain: median(baseline?.seconds || []) ?? verify[0][1], verify, draft, levels: levelsOf(proposing), fed: fedOf(proposing),
    once: method === "medusa",
    trees: timings.trees.map((tree) => [tree.candidates, tree.tokens]), hits: method === "ngram" ? proposing.length / steps.length : 1,
    ...outsideOf(proposing, method),
  });
}

/** The median seconds of the measured passes of these kinds, by their tokens. */
function measuredPasses(timings, ...kinds) {
  const bySize = new Map();
  for (const work of timings?.passes || []) if (kinds.includes(work.kind)) bySize.set(work.tokens, [...(bySize.get(work.tokens) || []), work.seconds]);
  return [...bySize].map(([size, seconds]) => [size, median(seconds)]).sort(([a], [b]) => a - b);
}

/** K of a run: the depth of its deepest tree. */
function depthOf(steps) {
  return Math.max(0, ...steps.map((step) => Math.max(...depthsOf(step.tree))));
}

/** Candidates by depth: of a chain, as long as anybody may ask for; else of the run's largest tree. */
function levelsOf(steps) {
  if (steps.every((step) => step.tree.every((node, i) => node.parent === i - 1))) return Array(Math.max(LONGEST, depthOf(steps))).fill(1);
  const largest = steps.reduce((most, step) => (step.tree.length > most.tree.length ? step : most));
  const depths = depthsOf(largest.tree);
  return Array.from({ length: Math.max(...depths) }, (_, i) => depths.filter((depth) => depth === i + 1).length);
}

/** Candidates with children by depth, of the run's largest tree; null where all but the last level have some. */
function fedOf(steps) {
  const { tree } = steps.reduce((most, step) => (step.tree.length > most.tree.length ? step : most));
  const [depths, parents] = [depthsOf(tree), new Set(tree.map((node) => node.parent))];
  const inner = (depth, fed) => depths.filter((one, i) => one === depth && (!fed || parents.has(i))).length;
  const levels = Array.from({ length: Math.max(...depths) - 1 }, (_, i) => i + 1);
  return levels.every((depth) => inner(depth, true) === inner(depth, false)) ? null : levels.map((depth) => inner(depth, true));
}

/** Seconds of a step's passes of these kinds. */
function spentOn(step, ...kinds) {
  return step.passes.reduce((sum, work) => sum + (kinds.includes(work.kind) ? work.seconds : 0), 0);
}

/** The median time outside of passes: of a step, and, where each level is a pass of a draft, for each of these passes apart. */
function outsideOf(steps, method) {
  const rest = (step) => step.seconds.propose + step.seconds.verify + step.seconds.commit - spentOn(step, "plain", "verify");
  if (method !== "draft") return { perStep: median(steps.map((step) => rest(step) - spentOn(step, "draft"))), perDraft: 0 };
  const drafts = (step) => step.passes.filter((work) => work.kind === "draft").length;
  const proposing = steps.filter(drafts).map((step) => (step.seconds.propose - spentOn(step, "draft")) / drafts(step));
  return { perStep: median(steps.map((step) => rest(step) - step.seconds.propose)), perDraft: median(proposing) ?? 0 };
}

/** What a step of the run took on average, {drafting, verifying, outside, cost} in seconds. */
function meanStep(steps) {
  const mean = (value) => steps.reduce((sum, step) => sum + value(step), 0) / steps.length;
  const [drafting, verifying] = [mean((step) => spentOn(step, "draft")), mean((step) => spentOn(step, "plain", "verify"))];
  const cost = mean(({ seconds }) => seconds.propose + seconds.verify + seconds.commit);
  return { drafting, verifying, outside: cost - drafting - verifying, cost };
}

/** What the figure is filled with, as specviz/figures/cost.py does; `at` is asked about, `ran` is where the run was. */
function costPoints(model, { alpha, bySize, at, ran, tokens, speedup }) {
  const curve = bySize ? model.bySize() : model.byDepth(alpha);
  const chosen = bySize ? model.predictTree(at) : model.predict(alpha, at);
  const marks = [["chosen", chosen], ["best", bestOf(curve)], ["fullest", bySize ? bestOf(curve, "expected") : null]].filter(([, one]) => one);
  const passes = [
    ...["verify", "draft"].flatMap((series) => model[series].map(([rows, seconds]) => ({ series, rows, seconds }))),
    ...[model.verify[0], model.verify.at(-1)].map(([rows]) => ({ series: "plain", rows, seconds: model.plain })),
  ];
  if (chosen) passes.push({ series: "asked", rows: chosen.rows, seconds: interpolate(model.verify, chosen.rows) });
  return [
    ...curve.map((one) => ({ series: "predicted", ...one })), ...marks.map(([series, one]) => ({ series, ...one })),
    { series: "run", at: ran, expected: tokens, speedup }, ...passes,
  ];
}
