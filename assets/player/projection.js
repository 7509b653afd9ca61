/* What passes would cost if they served a batch, under the roofs of a machine: the twin of specviz/analysis/projection.py. A load is
   {flops, bytes, weights}; roofs are anything with {flops, bandwidth}. */

const MOST_AT_ONCE = 4096;

/** The load of a recorded pass, or null where its weights were not recorded or there is nothing in it. */
function loadOf({ flops, bytes, weights }) {
  const empty = weights === null || weights === undefined || !(flops > 0 && bytes > 0);
  return empty ? null : { flops, bytes, weights };
}

/** The same pass for `batch` sequences at once: weights are read once, everything else `batch` times. */
function batched({ flops, bytes, weights }, batch) {
  return { flops: batch * flops, bytes: weights + batch * (bytes - weights), weights };
}

/** The least time that a pass can take. */
function leastSeconds({ flops, bytes }, roofs) {
  return Math.max(flops / roofs.flops, bytes / roofs.bandwidth);
}

/** Speculation against plain decoding, by the batch size; `n` tokens in a target pass and `m` tokens a step are means. */
class Speculation {
  constructor(rounds) {
    const mean = (value) => rounds.reduce((sum, round) => sum + value(round), 0) / rounds.length;
    this.rounds = rounds;
    this.memory = new Map(); // the slider asks for the same numbers again and again
    this.n = mean((round) => round.width);
    this.m = mean((round) => round.tokens);
  }

  once(name, roofs, batch, find) {
    const key = [name, roofs.flops, roofs.bandwidth, batch].join("/");
    if (!this.memory.has(key)) this.memory.set(key, find());
    return this.memory.get(key);
  }

  /** Seconds of some loads of each round, summed. */
  total(loads, roofs, batch) {
    let sum = 0;
    for (const round of this.rounds) for (const load of loads(round)) sum += leastSeconds(batched(load, batch), roofs);
    return sum;
  }

  /** How many times as long as a plain pass the target's passes take. */
  cost(roofs, batch) {
    const total = (part) => this.total((round) => [round[part]], roofs, batch);
    return this.once("cost", roofs, batch, () => over(total("target"), total("plain")));
  }

  /** How many times as fast as plain decoding. */
  speedup(roofs, batch) {
    const plain = () => this.rounds.reduce((sum, round) => sum + round.tokens * leastSeconds(batched(round.plain, batch), roofs), 0);
    return this.once("speedup", roofs, batch, () => over(plain(), this.total((round) => [round.target, ...round.proposer], roofs, batch)));
  }

  /** The batch size from which on speculation is no faster than plain decoding, or null where it still is at MOST_AT_ONCE. */
  stops(roofs) {
    const pays = (batch) => this.speedup(roofs, batch) > 1;
    let high = 1;
    while (pays(high)) {
      if (high >= MOST_AT_ONCE) return null;
      high *= 2;
    }
    let low = Math.floor(high / 2);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (pays(middle)) low = middle;
      else high = middle;
    }
    return high;
  }
}

function over(value, by) {
  return by ? value / by : null;
}

/** The steps of a run as loads, or null without steps, and where weights or plain passes were not recorded. */
function speculation(header, steps) {
  const plain = plainAt(header);
  if (!plain || !steps.length) return null;
  const rounds = steps.map((step) => {
    const works = step.passes.filter((work) => work.kind !== "prefill");
    const targets = works.filter((work) => work.kind !== "draft");
    if (targets.length !== 1 || works.some((work) => !loadOf(work))) return null;
    const [target] = targets;
    const proposer = works.filter((work) => work.kind === "draft").map(loadOf);
    return { tokens: step.emitted.length, width: target.tokens, plain: plain(target.context), target: loadOf(target), proposer };
  });
  return rounds.includes(null) ? null : new Speculation(rounds);
}

/** The load of a plain pass at any context, on the line through two recorded ones. */
function plainAt(header) {
  const recorded = [...(header.timings?.passes || []), ...(header.baseline?.passes || [])].filter((work) => work.kind === "plain" && loadOf(work));
  if (!recorded.length) return null;
  const [first, last] = [recorded[0], recorded[recorded.length - 1]];
  return (context) => {
    const way = last.context === first.context ? 0 : (context - first.context) / (last.context - first.context);
    return { flops: first.flops + way * (last.flops - first.flops), bytes: first.bytes + way * (last.bytes - first.bytes), weights: first.weights };
  };
}

/** The passes measured before the run as they would lie for `batch` sequences on the roof of each machine (roofs_points.py). */
function projectedPoints(header, batch, machines) {
  const works = (header.timings?.passes || []).filter(loadOf);
  return machines.flatMap((machine) => works.map((work) => {
    const load = batched(loadOf(work), batch);
    const seconds = leastSeconds(load, machine);
    return {
      set: "projected", kind: work.kind, tokens: work.tokens, batch, machine: machine.key, here: machine.origin === "measured", flops: load.flops, bytes: load.bytes,
      seconds, intensity: load.flops / load.bytes, achieved: load.flops / seconds, origin: "computed", fault: false, curve: false,
    };
  }));
}

/** Speed-ups by batch size on each machine (roofs_points.py); `measured` is what the run itself reached, or null. */
function speedupPoints(found, batch, machines, sizes, measured) {
  return machines.flatMap((machine) => {
    const at = (set, size) => ({ set, machine: machine.key, batch: size, cost: found.cost(machine, size), speedup: found.speedup(machine, size), origin: "computed" });
    const points = [...sizes.map((size) => at("curve", size)), at("now", batch)];
    const stop = found.stops(machine);
    if (stop !== null && stop > 1 && stop <= sizes[sizes.length - 1]) points.push(at("stops", stop));
    const own = machine.origin === "measured" && measured !== null;
    if (own) points.push({ set: "measured", machine: machine.key, batch: 1, cost: null, speedup: measured, origin: "measured" });
    return points;
  });
}
