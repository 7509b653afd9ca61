/* The keyboard, and the overlay that lists it. Keys are left alone while somebody types, or uses another control that needs them. */

const KEYS = [
  ["Space", "play"], ["← →", "step"], ["⇧ ← →", "substep"], ["Home End", "ends"], ["↑ ↓", "node"], ["?", "help"],
];
const TYPING = "input:not(.sv-slider), textarea, select, [contenteditable=''], [contenteditable='true'], [role='textbox'], [role='slider'], [role='listbox'], [role='tab'], [role='menu']";
const PRESSABLE = "button, a[href], summary, [role='button'], [role='checkbox'], [role='switch'], [role='option']";

function listenToKeys(player) {
  const { store } = player;
  const moves = {
    " ": () => player.transport.toggle(),
    ArrowLeft: (shift) => (shift ? store.walk(-1) : store.seek(store.step - 1)),
    ArrowRight: (shift) => (shift ? store.walk(1) : store.seek(store.step + 1)),
    Home: () => store.seek(0),
    End: () => store.seek(Infinity),
    ArrowUp: () => store.selectNext(-1),
    ArrowDown: () => store.selectNext(1),
    "?": () => player.help.toggle(),
  };
  const handler = (event) => {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (!player.root.getClientRects().length || target.closest(TYPING) || player.help.open) return; // no keys while another tab is shown
    if (event.key === " " && target.closest(PRESSABLE)) return; // space presses the button that has the focus
    if (scrolls(target, event.key)) return;
    const move = moves[event.key];
    if (!move || (event.shiftKey && !["ArrowLeft", "ArrowRight", "?"].includes(event.key))) return;
    event.preventDefault();
    move(event.shiftKey);
  };
  document.addEventListener("keydown", handler);
  return () => document.removeEventListener("keydown", handler);
}

/** Whether a focused table outside the verdicts needs the arrow to scroll. */
function scrolls(target, key) {
  return (key === "ArrowUp" || key === "ArrowDown") && Boolean(target.closest(".sv-twin, .sv-flow"));
}

class Help {
  constructor(player) {
    this.player = player;
    this.dialog = el("dialog.sv-help-box", { onclick: (event) => event.target === this.dialog && this.dialog.close() });
    this.label();
  }

  get open() {
    return this.dialog.open;
  }

  toggle() {
    if (this.dialog.open) this.dialog.close();
    else if (this.dialog.isConnected) this.dialog.showModal();
  }

  label() {
    const say = (key) => this.player.words.say(key);
    const close = iconButton("close", () => this.dialog.close());
    close.setAttribute("aria-label", say("player.close"));
    const keys = KEYS.flatMap(([keys_, name]) => [
      el("dt", null, keys_.split(" ").map((key) => el("kbd", null, key))), el("dd", null, say(`player.key_${name}`)),
    ]);
    const signs = Object.entries(this.player.palette.states).filter(([state]) => HELP_STATES.includes(state)).map(([state, sign]) => (
      el("li", null, el(`span.sv-sign.sv-s-${state}`, { "aria-hidden": "true" }, sign.letter), el("b", null, say(`state.${state}`)), ` ${say(`player.means_${state}`)}`)
    ));
    this.dialog.setAttribute("aria-labelledby", "sv-help-title");
    this.dialog.replaceChildren(
      el("header.sv-head", null, el("h2", { id: "sv-help-title" }, say("player.help")), close),
      el("div.sv-help-columns", null, el("dl.sv-keys", null, keys), el("ul.sv-signs", null, signs)),
    );
  }
}

const HELP_STATES = ["accepted", "refused", "untested", "recovered", "bonus", "plain"];
