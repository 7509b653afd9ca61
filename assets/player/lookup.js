/* Proposals that were copied from the text: from where, and where that stands on the page. Positions count all tokens, the prompt's first. */

/** The match that the candidate in focus was copied from, with its number and reach; the first one for other tokens, null without any. */
function matchOf(step, focus) {
  if (!step.matches?.length) return null;
  const node = focus < step.tree.length ? focus : step.stopped_at;
  const index = Math.max(0, node && step.matches.findIndex((match) => lineage(step.tree, match.node, 0).includes(node)));
  return { ...step.matches[index], index, reach: depthsOf(step.tree)[step.matches[index].node] };
}

/** [class, from, to) of what a match is about: the text's last tokens, where they stood before, and what followed there. */
function rangesOf(step, { start, length, reach }) {
  const behind = start + length;
  return [["sv-copied", behind, behind + reach], ["sv-source", start, behind], ["sv-matched", step.context - length, step.context]];
}

/** Where each token of the prompt stands in the prompt on show: [from, to) in characters, null for one of the chat template. */
function promptPlaces({ prompt, prompt_texts: texts, prompt_start: start }) {
  const whole = (texts || []).join("");
  const before = Array.from(whole).slice(0, start ?? 0).join("").length; // Python counts code points
  if (start === null || start === undefined || !whole.startsWith(prompt, before)) return null;
  let at = -before;
  return texts.map((text) => {
    const from = Math.max(at, 0);
    at += text.length;
    return from < Math.min(at, prompt.length) ? [from, Math.min(at, prompt.length)] : null;
  });
}

/** Ranges of tokens as ranges of the prompt's characters; those that have no place in it are left out. */
function inPrompt(ranges, places) {
  return ranges.flatMap(([name, from, to]) => {
    const found = (places || []).slice(from, to).filter(Boolean);
    return found.length ? [[name, found[0][0], found[found.length - 1][1]]] : [];
  });
}

/** Where tokens [from, to) stand: "answer", "prompt", "template", or "input" where the prompt cannot be told from its template. */
function sideOf(header, places, from, to) {
  if (from >= header.prompt_ids.length) return "answer";
  if (!places) return "input";
  return to > header.prompt_ids.length || places.slice(from, to).some(Boolean) ? "prompt" : "template";
}
