/* Why a run is slower, or faster, than plain decoding, and what would change it: the twin of specviz/analysis/slow.py and remedies.py,
   whose docstrings are the specification. Everything is per step and in seconds. */

const CAUSES = ["refused", "drafting", "verifying", "overhead", "cut"];
const ENOUGH_STEPS = 8;
const SAME_SPEED = 1.03;
const BETTER_BY = 1.02;
const DEAR_FROM = 1.15;

/** The key of the sentence that stands where there is nothing to take apart, or null. */
function silenceOf(steps, header) {
  if (header.config.method === "plain") return "slow.plain";
  if (!header.baseline || !median(header.baseline.seconds)) return "slow.no_baseline";
  return steps.some(({ seconds }) => seconds.propose + seconds.verify + seconds.commit) ? null : "slow.no_steps";
}

/** The parts of the difference to plain decoding over recorded steps; null where `silenceOf` has the word. */
function whyOf(steps, header) {
  if (silenceOf(steps, header)) return null;
  const work = steps.map(workOf).reduce(addWork);
  const plain = median(header.baseline.seconds);
  const plainPass = Math.min(plain, median(header.baseline.passes.map((pass) => pass.seconds)) ?? plain) || plain;
  const tokens = work.tokens / work.steps;
  const step = (work.propose + work.verify + work.commit) / work.steps;
  return {
    work, plain, plainPass, tokens, step, gain: tokens * plain - step, speedup: tokens * plain / step,
    full: work.depth / work.steps * plain, credit: (tokens - 1) * plain,
    refused: (work.depth - work.accepted) / work.steps * plain, cut: (work.accepted + work.steps - work.tokens) / work.steps * plain,
    drafting: work.drafting / work.steps, verifying: work.verify / work.steps - plainPass,
    overhead: (work.propose - work.drafting + work.commit) / work.steps - (plain - plainPass),
  };
}

function workOf(step) {
  const drafts = step.passes.filter((pass) => pass.kind === "draft");
  const { propose, verify, commit } = step.seconds;
  const depth = Math.max(...depthsOf(step.tree));
  return {
    steps: 1, tokens: step.emitted.length, candidates: step.tree.length - 1, depth, deepest: depth,
    accepted: step.emitted.length + step.dropped - 1, empty: Number(step.tree.length === 1), passes: drafts.length,
    drafting: drafts.reduce((sum, pass) => sum + pass.seconds, 0), propose, verify, commit,
  };
}

function addWork(a, b) {
  const sum = Object.fromEntries(Object.keys(a).map((name) => [name, a[name] + b[name]]));
  return { ...sum, deepest: Math.max(a.deepest, b.deepest) };
}

function inMs(seconds) {
  return number(Math.abs(seconds) >= 5e-7 ? 1000 * seconds : 0);
}

function paceOf(why) {
  if (Math.max(why.speedup, 1 / why.speedup) < SAME_SPEED) return "same";
  return why.speedup > 1 ? "faster" : "slower";
}

/** {key, args} of how much slower or faster. */
function headlineOf(why) {
  const pace = paceOf(why);
  const args = { step: inMs(why.step), tokens: number(why.tokens), plain: inMs(why.tokens * why.plain) };
  const times = number(Math.max(why.speedup, 1 / why.speedup));
  return { key: `slow.${pace}`, args: pace === "same" ? args : { times, ...args } };
}

/** What keeps a step from its full credit, the largest first: [{name, seconds, share, why: {key, args}}]. */
function causesOf(why) {
  const held = CAUSES.filter((name) => why[name] > 0);
  const total = held.reduce((sum, name) => sum + why[name], 0);
  held.sort((a, b) => why[b] - why[a]);
  return held.map((name) => ({ name, seconds: why[name], share: why[name] / total, why: { key: `slow.because.${name}`, args: BECAUSE[name](why) } }));
}

const BECAUSE = {
  refused: ({ work, plain }) => ({ depth: number(work.depth / work.steps), accepted: number(work.accepted / work.steps), plain: inMs(plain) }),
  drafting: ({ work }) => ({ passes: number(work.passes / work.steps), each: inMs(work.drafting / work.passes) }),
  verifying: ({ work, plainPass }) => {
    const spent = work.verify / work.steps;
    return { rows: number(1 + work.candidates / work.steps), verify: inMs(spent), plain: inMs(plainPass), ratio: number(spent / plainPass) };
  },
  overhead: ({ work }) => ({ propose: inMs((work.propose - work.drafting) / work.steps), commit: inMs(work.commit / work.steps) }),
  cut: ({ work }) => ({ cut: String(work.accepted + work.steps - work.tokens) }),
};

/** What to know before believing it. */
function notesOf({ work: { steps, empty, passes } }) {
  const said = steps < ENOUGH_STEPS ? [{ key: "slow.short", args: { steps: String(steps) } }] : [];
  if (empty && (!passes || 10 * empty >= steps)) said.push({ key: "slow.empty", args: { empty: String(empty), steps: String(steps), share: number(100 * empty / steps, 2) } });
  return said;
}

// ---- what would change it ---------------------------------------------------------------------------------------------------------

/** [{key, args}], most practical first; `steps` are those that `why` was made of. */
function remediesOf(why, steps, header) {
  const model = costModel(header, steps);
  const chance = alphaOf(addCounts(steps.map((step) => countStep(step, asRecorded(step), header.config))))?.value ?? null;
  const needed = model && model.breakEvenAlpha(depthOf(steps));
  return [model && anotherSize(model, chance, steps, header), breakEven(why), alphaNeeded(why, needed, chance), allAccepted(why), cheaperProposer(why), freeVerifying(why)].filter(Boolean);
}

function anotherSize(model, chance, steps, { config }) {
  const calibrated = model.trees.length > 0 && !fullTree(config);
  if (!calibrated && chance === null) return null;
  const kind = calibrated ? "tree" : model.levels.every((width) => width === 1) ? "k" : "depth";
  const now = calibrated ? Math.max(...steps.map((step) => step.tree.length)) - 1 : depthOf(steps);
  const predicted = calibrated ? model.predictTree(now) : model.predict(chance, now);
  const other = bestOf(calibrated ? model.bySize() : model.byDepth(chance));
  if (!other || !predicted || other.speedup < BETTER_BY * predicted.speedup) return null;
  return { key: `slow.another.${kind}`, args: { size: String(other.at), now: String(now), times: number(other.speedup), predicted: number(predicted.speedup) } };
}

/** Whether a tree like "4x2x1" was asked for. */
function fullTree({ tree }) {
  return Boolean(tree) && !tree.includes(":");
}

function breakEven(why) {
  return { key: "slow.break_even", args: { needed: number(why.step / why.plain), tokens: number(why.tokens) } };
}

function alphaNeeded(why, needed, chance) {
  if (paceOf(why) !== "slower" || needed === null || chance === null || needed <= chance) return null;
  return { key: "slow.break_even_alpha", args: { alpha: number(needed), now: number(chance) } };
}

function allAccepted(why) {
  const times = (why.full + why.plain) / why.step;
  return { key: times >= 1 ? "slow.all_accepted" : "slow.even_all_accepted", args: { times: number(times) } };
}

function cheaperProposer(why) {
  if (paceOf(why) !== "slower" || !why.work.passes) return null;
  const now = why.work.propose / why.work.steps;
  const most = now + why.gain;
  return most > 0 ? { key: "slow.cheaper_proposer", args: { most: inMs(most), now: inMs(now) } } : { key: "slow.free_proposer", args: {} };
}

function freeVerifying(why) {
  const { work, plain, plainPass } = why;
  const ratio = work.verify / work.steps / plainPass;
  if (ratio < DEAR_FROM) return null;
  const times = why.tokens * plain / (why.step - why.verifying);
  return { key: "slow.free_verifying", args: { rows: number(1 + work.candidates / work.steps), ratio: number(ratio), times: number(times) } };
}
