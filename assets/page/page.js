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
    player((specviz) => specviz.setLanguage(language));
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
    const settings = document.getElementById("settings");
    if (settings) new MutationObserver(reachable).observe(settings, { subtree: true, attributes: true, attributeFilter: ["disabled"] });
    reachable();
    return firstLanguage();
  }

  return { start, setLanguage, toggleTheme, help, more, buttons };
})();
