/* The rules once more, in the browser: the twin of specviz/engine/rules.py, so that changing ε, δ or the rule needs neither model nor
   server. Pure functions of a recorded step; a test holds them against the Python on every rule. */

/** The children of every node, in rank order. */
function childrenOf(tree) {
  const children = tree.map(() => []);
  tree.forEach((node, i) => i && children[node.parent].push(i));
  return children;
}

/** min(ε, δ·e^(−H)) */
function threshold(epsilon, delta, entropy) {
  return Math.min(epsilon, delta * Math.exp(-entropy));
}

/** The rule that decides in fact: at temperature 0 every rule is the argmax. */
function decidingRule(how) {
  return how.temperature === 0 ? "greedy" : how.rule;
}

/** Judge a recorded step under {rule, epsilon, delta, temperature} → {path, verdicts, token_id, kind, stopped_at}. */
function judge(step, how) {
  const rule = decidingRule(how);
  const children = childrenOf(step.tree);
  const { path, refused } = rule === "typical" ? longestTypical(step, how) : descend(step, rule, children);
  const last = path.length ? path[path.length - 1] : 0;
  const leaf = children[last].length === 0;
  const verdicts = step.tree.map((_, i) => (i ? "untested" : "root"));
  for (const node of refused) verdicts[node] = "refused";
  for (const node of path) verdicts[node] = "accepted";
  const kind = step.tree.length === 1 ? "plain" : leaf ? "bonus" : "recovered";
  return { path, verdicts, token_id: extraToken(step.rows[last], rule, leaf), kind, stopped_at: last };
}

function extraToken(row, rule, leaf) {
  const drawn = rule === "greedy" ? null : rule === "rejection" && !leaf ? row.residual_draw : row.draw;
  return drawn ?? row.argmax;
}

function descend(step, rule, children) {
  const path = [];
  const refused = [];
  for (let node = 0; ; ) {
    const accepted = children[node].find((child) => passes(step, rule, child, node));
    const failed = rule === "rejection" && accepted !== undefined ? children[node].filter((child) => child < accepted) : children[node];
    refused.push(...failed.filter((child) => child !== accepted));
    if (accepted === undefined) return { path, refused };
    path.push(accepted);
    node = accepted;
  }
}

function passes(step, rule, child, parent) {
  const node = step.tree[child];
  const row = step.rows[parent];
  if (rule === "greedy") return node.token_id === row.argmax;
  if (rule === "match") return node.token_id === (row.draw ?? row.argmax);
  return (node.u ?? 0) * (node.q_test ?? 0) < (node.p_test ?? 0); // strictly: a token of probability 0 must not pass at u = 0
}

/** The longest path whose nodes all pass; of equally long ones the likeliest, then the first. */
function longestTypical(step, how) {
  const reached = new Map([[0, { depth: 0, logp: 0 }]]);
  const refused = [];
  let best = { node: 0, depth: 0, logp: 0 };
  step.tree.forEach((node, i) => {
    if (!i || !reached.has(node.parent)) return;
    if (!((node.p ?? 0) > threshold(how.epsilon, how.delta, step.rows[node.parent].entropy))) return void refused.push(i);
    const above = reached.get(node.parent);
    const here = { node: i, depth: above.depth + 1, logp: above.logp + Math.log(node.p) };
    reached.set(i, here);
    if (here.depth > best.depth || (here.depth === best.depth && here.logp > best.logp)) best = here;
  });
  const path = [];
  for (let node = best.node; node > 0; node = step.tree[node].parent) path.unshift(node);
  return { path, refused };
}

/** What the judged step would commit: [{token_id, kind, node}], cut where the run would have been cut (EOS, budget). */
function committed(step, judgement, eosIds) {
  const tokens = judgement.path.map((node) => ({ token_id: step.tree[node].token_id, kind: "accepted", node }));
  tokens.push({ token_id: judgement.token_id, kind: judgement.kind, node: null });
  const eos = tokens.findIndex((token) => eosIds.includes(token.token_id));
  if (eos >= 0) tokens.length = eos + 1;
  const endedByBudget = step.dropped > 0 && !eosIds.includes(step.emitted[step.emitted.length - 1].token_id);
  return endedByBudget ? tokens.slice(0, step.emitted.length) : tokens;
}

/** Whether the recorded continuation still follows: the same tokens, whatever their verdicts. */
function sameTokens(step, tokens) {
  return tokens.length === step.emitted.length && tokens.every((token, i) => token.token_id === step.emitted[i].token_id);
}

/**
 * Judge a run again. Returns {judgements, tokens, differs}: `differs` is the first step whose tokens would be others, or -1; the run
 * that follows it was decoded after other tokens, so the steps behind it have no judgement.
 */
function rejudge(steps, how, eosIds) {
  const judgements = [];
  const tokens = [];
  for (const [i, step] of steps.entries()) {
    judgements.push(judge(step, how));
    tokens.push(committed(step, judgements[i], eosIds));
    if (!sameTokens(step, tokens[i])) return { judgements, tokens, differs: i };
  }
  return { judgements, tokens, differs: -1 };
}
