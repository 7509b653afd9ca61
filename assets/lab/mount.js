/* What the lab has from outside: the run on show in the player, the measured times of passes, and its place in a Gradio page. */

/** Tokens a second of trees of 1, 2, … candidates with these expected tokens: [{at, expected, rate}], by a Python CostModel as JSON. */
function ratesOf(model, expected) {
  const trees = expected.map((tokens, i) => [i + 1, tokens]);
  const costs = new CostModel({ ...model, trees, hits: 1, perStep: model.per_step, perDraft: model.per_draft });
  return costs.bySize().map(({ at, expected: tokens, cost }) => ({ at, expected: tokens, rate: tokens / cost }));
}

/** A run of the player as a trace file's text; of its first `most` steps. */
function traceText(run, most = Infinity) {
  return JSON.stringify({ format: 2, header: run.header, steps: run.steps.slice(0, most).map((view) => view.step), ended: run.ended || "stopped" });
}

const LAB_KEYS = [["← → ↑ ↓", "walk"], ["Enter +", "child"], ["S", "sibling"], ["Delete", "remove"], ["Z", "undo"]];

/** What the keys do in the tree: in the place of the player's own help while the lab is shown. */
class LabHelp {
  constructor(lab) {
    this.lab = lab;
    this.dialog = el("dialog.sv-help-box", { onclick: (event) => event.target === this.dialog && this.dialog.close() });
  }

  toggle() {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }

  label() {
    const say = (key) => this.lab.words.say(key);
    const close = iconButton("close", () => this.dialog.close());
    close.setAttribute("aria-label", say("player.close"));
    const keys = LAB_KEYS.flatMap(([names, name]) => [
      el("dt", null, names.split(" ").map((key) => el("kbd", null, key))), el("dd", null, say(`lab.key_${name}`)),
    ]);
    this.dialog.setAttribute("aria-label", say("lab.help"));
    this.dialog.replaceChildren(el("header.sv-head", null, el("h2", null, say("lab.help")), close), el("dl.sv-keys", null, keys));
  }
}

function mountLab(gradio, plotlyPath) {
  const page = {
    run: () => window.specviz?.player.store.run ?? null,
    decode: (method, choices) => window.specvizPage?.decodeTree(method, choices),
  };
  const lab = mountTab(TreeLab, "trees", gradio, plotlyPath, page);
  window.specvizLab = lab;
  document.addEventListener("keydown", ({ key, target }) => {
    const typing = target instanceof Element && target.closest("input, textarea, [role='application']");
    if (key === "?" && !typing && lab.root.getClientRects().length) lab.help.toggle();
  });
}
