/* What typical acceptance does to the distribution, and the four rules on the same records: the twin of specviz/analysis/typical.py, whose
   docstring is the specification. `how` is {rule, epsilon, delta, temperature}; `judged` is {verdicts, stopped_at, tokens} of a step. */

const RULES = ["greedy", "rejection", "match", "typical"];
const NAMED_TOP = 8; // so many most probable tokens of p are named in every row (specviz/engine/record.py)
const HALVINGS = 40;
const LEAST_SHOWN = 1e-5; // where the axis of p ends (specviz/figures/typical.py)
const NARROWEST = 2; // nats that the axis of entropy shows at least

/** Whether a step holds the numbers that the rule reads: at temperature 0 the argmax alone, else also what was drawn. */
function judgeable(step, how) {
  const rule = decidingRule(how);
  const known = (value) => value !== null && value !== undefined;
  if (rule === "greedy") return true;
  if (!step.rows.every((row) => known(row.draw))) return false;
  return rule !== "rejection" || step.tree.slice(1).every((node) => known(node.u) && known(node.p_test) && known(node.q_test));
}

/** A step as a rule judges it from its recorded start, or null where the record does not hold what the rule reads. */
function judgedAs(step, how, eosIds) {
  if (!judgeable(step, how)) return null;
  const judgement = judge(step, how);
  return { ...judgement, tokens: committed(step, judgement, eosIds) };
}

/** The candidates that typical acceptance judged, [{node, entropy, p, state}]: "beside" passes, but the path that is taken goes elsewhere. */
function triedIn(step, verdicts) {
  const found = [];
  const reached = new Set([0]);
  step.tree.forEach((candidate, node) => {
    if (!node || !reached.has(candidate.parent)) return;
    const state = verdicts[node] === "untested" ? "beside" : verdicts[node];
    if (state !== "refused") reached.add(node);
    found.push({ node, entropy: step.rows[candidate.parent].entropy, p: candidate.p ?? 0, state });
  });
  return found;
}

// ---- KL(e‖p) of what is emitted ---------------------------------------------------------------------------------------------------

/** {tokens, nats, exact}: Σ KL(e‖p) over the committed tokens of a step; `nats` is null where the records do not tell. */
function emittedKl(step, judged, how) {
  const rule = how.temperature === 0 ? "rejection" : how.rule; // whatever it is called, it emits the target's own distribution
  const place = { greedy: () => surpriseAt(step, judged), typical: () => placeOf(step, judged, how) }[rule];
  const of = place ? place() : () => ({ nats: 0, exact: true });
  return addKl(judged.tokens.map((token) => ({ tokens: 1, ...of(token) })));
}

function addKl(parts) {
  return parts.reduce((sum, one) => ({
    tokens: sum.tokens + one.tokens, nats: sum.nats === null || one.nats === null ? null : sum.nats + one.nats, exact: sum.exact && one.exact,
  }), { tokens: 0, nats: 0, exact: true });
}

/** The mean over the tokens, or null. */
function klPerToken({ tokens, nats }) {
  return nats === null || !tokens ? null : nats / tokens;
}

/** −ln p(x) of each committed token. */
function surpriseAt(step, judged) {
  return (token) => {
    const row = step.rows[judged.stopped_at];
    const chance = isProposed(token) ? step.tree[token.node].p : entry(row, row.p, token.token_id);
    return { nats: chance ? -Math.log(chance) : null, exact: true };
  };
}

function isProposed(token) {
  return token.node !== null && token.node !== undefined;
}

/** How typical acceptance came to each token: from chosen candidates, or from a chain that was drawn. */
function placeOf(step, judged, how) {
  const surprise = surpriseAt(step, judged);
  if (isChosen(step)) return (token) => (isProposed(token) ? surprise(token) : { nats: 0, exact: true });
  const children = childrenOf(step.tree);
  const chain = step.tree.slice(1).every((node, i) => node.parent === i && node.q_test !== null && node.q_test !== undefined);
  return (token) => {
    const node = isProposed(token) ? step.tree[token.node].parent : judged.stopped_at;
    if (!children[node].length) return { nats: 0, exact: true };
    const row = step.rows[node];
    return chain ? drawnKl(row, threshold(how.epsilon, how.delta, row.entropy)) : { nats: null, exact: true };
  };
}

/** Whether the candidates follow from the text; else they were drawn from q. */
function isChosen(step) {
  return step.tree.slice(1).every((node) => node.q_test === 1);
}

/** {nats, exact}: KL(e‖p) over what a row tells, for a candidate drawn from its q against `bar`; at least so much where unnamed tokens may pass. */
function drawnKl(row, bar) {
  if (!row.q) return { nats: null, exact: true };
  const tail = row.q_tail ?? 0;
  const passing = row.q.map((q, i) => (row.p[i] > bar ? q : 0));
  const refused = total(row.q) - total(passing);
  const bound = (share) => {
    const rest = refused + (1 - share) * tail;
    const term = (e, p) => (e > 0 && p > 0 ? e * Math.log(e / p) : 0);
    return total(passing.map((q, i) => term(q + rest * row.p[i], row.p[i]))) + term(share * tail + rest * row.p_tail, row.p_tail);
  };
  const leastNamed = row.p.length >= NAMED_TOP ? row.p[NAMED_TOP - 1] : 0;
  const unknown = leastNamed > bar && (row.p_tail > bar || bar === 0);
  return { nats: Math.max(0, unknown ? leastOf(bound) : bound(0)), exact: !unknown };
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The least value of a convex function on [0, 1], by thirds. */
function leastOf(of) {
  let [low, high] = [0, 1];
  for (let i = 0; i < HALVINGS; i += 1) {
    const third = (high - low) / 3;
    if (of(low + third) <= of(high - third)) high -= third;
    else low += third;
  }
  return of((low + high) / 2);
}

// ---- the rules side by side -------------------------------------------------------------------------------------------------------

/** {rule, counts, own, kl, parts, otherText} of a rule over the recorded steps; all null where it cannot be judged. */
function outcomeOf(rule, steps, judged, how) {
  if (judged.includes(null)) return { rule, counts: null, own: null, kl: null, parts: null, otherText: false };
  const counted = steps.map((step, i) => countStep(step, judged[i], how));
  const differs = steps.findIndex((step, i) => !sameTokens(step, judged[i].tokens));
  const parts = differs < 0 ? null : differs;
  return {
    rule, counts: addCounts(counted), own: addCounts(parts === null ? counted : counted.slice(0, parts + 1)),
    kl: addKl(steps.map((step, i) => emittedKl(step, judged[i], how))), parts,
    otherText: parts !== null && firstOther(steps, parts, judged[parts].tokens) >= 0,
  };
}

/** The first of `tokens` that is not that of the recorded text from step `from` on, as far as both go, or -1. */
function firstOther(steps, from, tokens) {
  const text = [];
  for (let i = from; i < steps.length && text.length < tokens.length; i += 1) text.push(...steps[i].emitted.map((token) => token.token_id));
  return tokens.findIndex((token, i) => i < text.length && token.token_id !== text[i]);
}

/** The steps of a run as rules judge them, kept and continued as steps arrive: sliders and live runs ask again and again. */
class RuleBook {
  constructor() {
    this.kept = new Map();
  }

  /** {judged, outcome} of a rule; `judged` holds null where the record of a step is not enough. */
  read(run, rule, { epsilon, delta }) {
    const { temperature } = run.header.config;
    const how = { rule, temperature, epsilon, delta };
    const key = decidingRule(how) === "typical" ? `${epsilon}/${delta}` : "";
    let page = this.kept.get(rule);
    if (page?.run !== run || page.key !== key) this.kept.set(rule, (page = { run, key, judged: [], outcome: null }));
    if (page.outcome && page.judged.length === run.steps.length) return page;
    const steps = run.steps.map((view) => view.step);
    for (let i = page.judged.length; i < steps.length; i += 1) page.judged.push(judgedAs(steps[i], how, run.header.eos_ids));
    page.outcome = outcomeOf(rule, steps, page.judged, how);
    return page;
  }
}

// ---- what the figures are filled with ---------------------------------------------------------------------------------------------

/** A point for each judged candidate of a step (specviz/figures/typical.py). */
function typicalPoints(step, verdicts, { epsilon, delta }) {
  return triedIn(step, verdicts).map((one) => {
    const bar = threshold(epsilon, delta, one.entropy);
    const [p, line] = compared(one.p, bar);
    return {
      step: step.index, node: one.node, token: shown(step.tree[one.node].text), entropy: one.entropy, p: one.p,
      shown: Math.max(one.p, LEAST_SHOWN), threshold: bar, state: one.state,
      sum: `p = ${p} ${one.p > bar ? ">" : "≤"} ${line} = min(${number(epsilon)}, ${number(delta)}·e^−${number(one.entropy)})`,
    };
  });
}

/** The entropy at which the axis ends. */
function widestOf(points) {
  return points.reduce((widest, { entropy }) => Math.max(widest, 1.05 * entropy), NARROWEST);
}

/** The threshold as corners of a line; none where it is 0 everywhere. */
function linePoints({ epsilon, delta }, widest) {
  if (Math.min(epsilon, delta) <= 0) return [];
  const bend = Math.log(delta / epsilon);
  const corners = [0, ...(bend > 0 && bend < widest ? [bend] : []), widest];
  return corners.map((entropy) => ({ state: "threshold", entropy, shown: threshold(epsilon, delta, entropy) }));
}

/** A point for each step as a rule judges it, `past` those behind its parting (specviz/figures/rules.py). */
function rulesPoints({ rule, parts }, judged) {
  return judged.map(({ tokens }, step) => {
    const accepted = tokens.filter(isProposed).length;
    return { rule, step, accepted, extra: tokens.length - accepted, tokens: tokens.length, past: parts !== null && step > parts };
  });
}
