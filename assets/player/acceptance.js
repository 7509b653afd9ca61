/* How much of what was proposed was taken: the twin of specviz/analysis/acceptance.py. Only committed tokens count.
   `judged` is {verdicts, stopped_at, tokens} of the step, recorded or re-judged; `how` is {rule, epsilon, delta, temperature}. */

const NO_COUNTS = { steps: 0, tokens: 0, drafted: 0, tested: 0, accepted: 0, overlap: 0, compared: 0, depths: [] };

/** A step as it was judged when it was decoded. */
function asRecorded(step) {
  return { verdicts: step.tree.map((node) => node.verdict), stopped_at: step.stopped_at, tokens: step.emitted };
}

/** The counts of one step; `depths[0]` is depth 1. */
function countStep(step, judged, how) {
  const depths = depthsOf(step.tree);
  const committed = judged.tokens.length; // position d of the step holds the candidates of depth d
  const tests = depths.map((_, i) => i).filter((i) => i && ["accepted", "refused"].includes(judged.verdicts[i]) && depths[i] <= committed);
  const overlaps = overlapPredicts(step, how) ? tests.map((i) => 1 - (step.rows[step.tree[i].parent].tv ?? 0)) : [];
  return {
    steps: 1, tokens: committed, drafted: step.tree.length - 1, tested: tests.length,
    accepted: judged.tokens.filter((token) => token.node !== null && token.node !== undefined).length,
    overlap: overlaps.reduce((sum, overlap) => sum + overlap, 0), compared: overlaps.length, depths: countDepths(depths, tests, judged.verdicts),
  };
}

/** The counts of steps, summed; `from` are counts to which they are added. */
function addCounts(counts, from = NO_COUNTS) {
  return counts.reduce((sum, one) => {
    const total = {};
    for (const name of ["steps", "tokens", "drafted", "tested", "accepted", "overlap", "compared"]) total[name] = sum[name] + one[name];
    const deep = Math.max(sum.depths.length, one.depths.length);
    total.depths = Array.from({ length: deep }, (_, d) => addDepths(sum.depths[d], one.depths[d]));
    return total;
  }, from);
}

/** Accepted ÷ tested; null where nothing was tested. */
function rateOf(counts) {
  return counts.tested ? counts.accepted / counts.tested : null;
}

/** α: the mean of 1 − TV(p, q) over the tests; null where it predicts nothing. */
function expectedRateOf(counts) {
  return counts.compared && counts.compared === counts.tested ? counts.overlap / counts.compared : null;
}

/** Whether a test's chance of acceptance is 1 − TV(p, q): rejection sampling of a chain that was drawn from q. */
function overlapPredicts(step, how) {
  if (decidingRule(how) !== "rejection" || step.tree.length === 1) return false;
  const known = (value) => value !== null && value !== undefined;
  const chain = step.tree.slice(1).every((node, i) => node.parent === i);
  const drawn = step.tree.slice(1).every((node) => known(node.q_test) && known(node.q) && Math.abs(node.q_test - node.q) < 1e-6);
  return chain && drawn && step.rows.slice(0, -1).every((row) => known(row.tv));
}

function countDepths(depths, tests, verdicts) {
  const counts = Array.from({ length: Math.max(0, ...tests.map((i) => depths[i])) }, () => ({ tested: 0, accepted: 0, reached: 0 }));
  for (const i of tests) {
    const count = counts[depths[i] - 1];
    count.reached += Number(count.tested === 0);
    count.tested += 1;
    count.accepted += Number(verdicts[i] === "accepted");
  }
  return counts;
}

function addDepths(a, b) {
  if (!a || !b) return a || b;
  return { tested: a.tested + b.tested, accepted: a.accepted + b.accepted, reached: a.reached + b.reached };
}
