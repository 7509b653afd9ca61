// What the page around the player does in the browser: first language, theme, explanations of buttons, the phone's short form.
// `TITLES` is put in front of this file when the page is built: {language: {id: explanation}}.
window.specvizPage = (() => {
  const stored = {
    read: (name) => { try { return localStorage.getItem("specviz." + name); } catch { return null; } },
    write: (name, value) => { try { localStorage.setItem("specviz." + name, value); } catch { /* storage is off: nothing is kept */ } },
  };
  const asked = (name) => new URLSearchParams(location.search).get(name);

  // The player mounts when it likes; what it is told before that waits for it.
  function player(call, tries = 100) {
    if (window.specviz) return call(window.specviz);
    if (tries > 0) setTimeout(() => player(call, tries - 1), 50);
  }

  function say(language) {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    for (const [id, text] of Object.entries(TITLES[language] || TITLES.en)) {
      const button = document.getElementById(id);
      if (button) { button.title = text; button.setAttribute("aria-label", button.textContent.trim().length > 1 ? button.textContent.trim() : text); }
    }
    for (const button of tabs()) button.textContent = (TABS[language] || TABS.en)[button.dataset.tab];
    document.querySelector("#tabs [role=tablist]")?.setAttribute("aria-label", (TABS[language] || TABS.en).list);
    player((specviz) => specviz.setLanguage(language));
    document.dispatchEvent(new CustomEvent("specviz-language", { detail: language }));
  }

  // ---- tabs: the one that is shown stands at the root of the document and in the address, so that a reload keeps it

  const root = document.documentElement;
  const tabs = () => [...document.querySelectorAll("#tabs [role=tab]")];
  const addressed = () => (Object.hasOwn(TABS.en, location.hash.slice(1)) ? location.hash.slice(1) : "player");

  function show(name, remember = true) {
    root.dataset.tab = name;
    for (const button of tabs()) {
      const chosen = button.dataset.tab === name;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      const panel = document.getElementById(`tab-${button.dataset.tab}`);
      panel?.setAttribute("role", "tabpanel");
      panel?.setAttribute("aria-labelledby", button.id);
    }
    const address = location.pathname + location.search + (name === "player" ? "" : `#${name}`);
    if (remember && name !== addressed()) history.pushState(null, "", address);
    document.dispatchEvent(new CustomEvent("specviz-tab", { detail: name }));
  }

  function startTabs() {
    const list = document.getElementById("tabs");
    list?.addEventListener("click", ({ target, detail }) => {
      const tab = target.closest("[role=tab]");
      if (!tab) return;
      show(tab.dataset.tab);
      if (detail) tab.blur(); // after a pointer's click the arrow keys belong to what is shown, not to the row of tabs
    });
    list?.addEventListener("keydown", (event) => {
      const all = tabs();
      const at = all.indexOf(event.target);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      const next = all[(to + all.length) % all.length];
      show(next.dataset.tab);
      next.focus();
    });
    addEventListener("popstate", () => show(addressed(), false));
    addEventListener("hashchange", () => show(addressed(), false));
    show(addressed(), false);
  }

  // A tree of another tab is decoded in the player: its method and tree are set, then Run is pressed (see specviz/ui/tabs/trees.py).
  let wanted = null;

  function decodeTree(method, choices) {
    wanted = [method, choices];
    document.getElementById("decode-tree").click();
  }

  function wantedTree() {
    return wanted;
  }

  function startTree() {
    show("player");
    document.getElementById("run").click();
  }

  function firstLanguage() {
    const wish = asked("language") || stored.read("language") || navigator.language || "en";
    const language = wish.toLowerCase().startsWith("zh") ? "zh" : "en";
    say(language);
    return language;
  }

  function setLanguage(language) {
    stored.write("language", language);
    say(language);
  }

  function firstTheme() {
    const wish = stored.read("theme");
    if (wish && !asked("__theme")) document.body.classList.toggle("dark", wish === "dark");
  }

  function toggleTheme() {
    stored.write("theme", document.body.classList.toggle("dark") ? "dark" : "light");
  }

  function help() {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "?", bubbles: true }));
  }

  // While a run is going on, Run is off and Stop is on.
  function buttons(running) {
    return [running, !running].map((off) => ({ __type__: "update", interactive: !off }));
  }

  // ε and δ moved in a panel: the controls follow where they are on, as if somebody had moved them. They then say so to the player, which
  // knows it already.
  function follow({ detail }) {
    for (const [id, value] of Object.entries(detail)) {
      const slider = document.querySelector(`#${id} input[type=range]`);
      if (!slider || slider.disabled || Number(slider.value) === value) continue;
      slider.value = value;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  function more() {
    document.getElementById("controls").toggleAttribute("data-all");
  }

  // An explanation belongs to its control for those who hear the page, too. A control that is off takes no focus, and the keyboard would
  // never reach the reason; its block takes the focus instead.
  function reachable() {
    for (const block of document.querySelectorAll("#settings .block[id]")) {
      const input = block.querySelector("input, textarea");
      if (!input) continue;
      if (input.disabled) block.tabIndex = 0;
      else block.removeAttribute("tabindex");
      block.classList.toggle("off", input.disabled);
      const info = block.querySelector(".info-text");
      if (!info) continue;
      info.id = `${block.id}-info`;
      for (const part of block.querySelectorAll("input, textarea")) part.setAttribute("aria-describedby", info.id);
    }
  }

  function start() {
    firstTheme();
    startTabs();
    document.addEventListener("specviz-bar", follow);
    const settings = document.getElementById("settings");
    if (settings) new MutationObserver(reachable).observe(settings, { subtree: true, attributes: true, attributeFilter: ["disabled"] });
    reachable();
    return firstLanguage();
  }

  root.dataset.tab = addressed(); // before anything is drawn
  return { start, setLanguage, toggleTheme, help, more, buttons, show, decodeTree, wantedTree, startTree };
})();
