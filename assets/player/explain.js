/* Why each candidate was accepted, refused or left alone: the twin of specviz/analysis/verdicts.py, whose docstring is the specification.
   `judged` is {verdicts, stopped_at, tokens} of the step, recorded or re-judged; `how` is {rule, epsilon, delta, temperature}. */

/** {key, args} for node `node` of a step. */
function explain(step, judged, how, node) {
  const verdict = judged.verdicts[node];
  if (verdict === "root") return { key: "verdict.root", args: {} };
  if (verdict === "untested") return explainUntested(step, judged, how, node);
  const [form, args] = WHY[decidingRule(how)](step, how, node);
  return { key: `verdict.${form}.${verdict}`, args };
}

/** {key, args} for the token that no candidate proposed, or for its having been cut off. */
function explainExtra(step, judged, how) {
  const last = judged.tokens[judged.tokens.length - 1];
  if (last.node !== null && last.node !== undefined) return { key: "verdict.extra.cut", args: { dropped: String(droppedBy(step, judged)) } };
  const row = step.rows[judged.stopped_at];
  const rule = decidingRule(how);
  const args = { token: nameOf(step, last.token_id) };
  if (rule === "greedy") return { key: `verdict.${last.kind}.greedy`, args: { ...args, p: number(entry(row, row.p, last.token_id)) } };
  let [source, column] = ["drawn", row.p];
  if (last.kind === "recovered") {
    source = rule;
    if (rule === "rejection") {
      const children = childrenOf(step.tree)[judged.stopped_at];
      const chosen = step.tree[children[children.length - 1]].q_test === 1;
      [source, column] = [chosen ? "rest" : "residual", row.residual];
    }
  }
  return { key: `verdict.${last.kind}.${source}`, args: { ...args, p: number(entry(row, column, last.token_id)), u: number(row.u) } };
}

/** Tokens that the end of the text or the budget cut off. */
function droppedBy(step, judged) {
  const accepted = judged.verdicts.filter((verdict) => verdict === "accepted").length;
  return accepted + 1 - judged.tokens.length;
}

function explainUntested(step, judged, how, node) {
  const path = lineage(step.tree, node, 0);
  const refused = path.filter((above) => judged.verdicts[above] === "refused");
  if (refused.length) return { key: "verdict.below_refused", args: { token: step.tree[refused[refused.length - 1]].text } };
  if (decidingRule(how) === "typical") return { key: "verdict.typical.beside", args: WHY.typical(step, how, node)[1] };
  const first = path.find((above) => judged.verdicts[above] === "untested");
  const taken = childrenOf(step.tree)[step.tree[first].parent].find((sibling) => judged.verdicts[sibling] === "accepted");
  if (taken === undefined) return { key: "verdict.untested", args: {} };
  const sibling = step.tree[taken].text;
  if (first === node) return { key: "verdict.sibling_accepted", args: { token: sibling } };
  return { key: "verdict.below_untested", args: { token: step.tree[first].text, sibling } };
}

/** For every rule: the form of the sentence, and its arguments. */
const WHY = {
  greedy(step, how, node) {
    const [token, argmax] = namesOf(step, step.tree[node].token_id, rowOf(step, node).argmax);
    return ["greedy", { token, argmax }];
  },

  match(step, how, node) {
    const candidate = step.tree[node];
    const [token, drawn] = namesOf(step, candidate.token_id, rowOf(step, node).draw ?? candidate.token_id);
    return ["match", { token, drawn, p: number(candidate.p) }];
  },

  rejection(step, how, node) {
    const candidate = step.tree[node];
    const chosen = candidate.q_test === 1;
    const [p, q] = compared(candidate.p_test, candidate.q_test);
    const [ratio, u] = compared(chance(candidate), candidate.u, 1);
    const args = chosen ? { p: ratio, u } : { p, q, ratio, u };
    const siblings = childrenOf(step.tree)[candidate.parent];
    const place = siblings.indexOf(node);
    const form = chosen ? "chosen" : "drawn";
    return place ? [`${form}.later`, { ...args, token: step.tree[siblings[place - 1]].text }] : [form, args];
  },

  typical(step, how, node) {
    const { entropy } = rowOf(step, node);
    const [p, bar] = compared(step.tree[node].p, threshold(how.epsilon, how.delta, entropy));
    return ["typical", { p, threshold: bar, epsilon: number(how.epsilon), delta: number(how.delta), entropy: number(entropy) }];
  },
};

/** min(1, p / q) of a rejection test. */
function chance({ p_test: p, q_test: q }) {
  if (p === null || p === undefined || q === null || q === undefined) return null;
  return q > 0 ? Math.min(1, p / q) : Number(p > 0);
}

function rowOf(step, node) {
  return step.rows[step.tree[node].parent];
}

function nameOf(step, token) {
  return step.texts[token] ?? `#${token}`;
}

/** Two tokens by their texts, told apart by their ids where the texts are the same. */
function namesOf(step, a, b) {
  const [first, second] = [nameOf(step, a), nameOf(step, b)];
  return first === second && a !== b ? [`${first} #${a}`, `${second} #${b}`] : [first, second];
}

function entry(row, column, token) {
  const place = row.ids.indexOf(token);
  return column && place >= 0 ? column[place] : null;
}
