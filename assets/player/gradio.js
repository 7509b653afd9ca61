/* The few lines that know Gradio: its element, its value, its server functions. */

/** Put the player into a gr.HTML; the first argument holds parameters of its js_on_load. */
function mountInGradio({ element, props, server, watch }, plotlyPath) {
  addStyle(STYLE);
  const before = window.specviz?.player;
  if (before && !before.root.isConnected) before.adopt(element); // the page mounted its component anew; the run stays
  else window.specviz = new SpecvizPlayer(element, { ...OPTIONS, plotly: () => loadPlotly(plotlyUrl(plotlyPath)), server, helpButton: !document.getElementById("help") }).api;
  const { player } = window.specviz;
  watch("value", () => player.message(unwrapped(props.value)));
  const first = unwrapped(props.value);
  if (first?.header?.config && !player.store.run) player.open(first, true);
  else player.message(first);
}

function addStyle(css) {
  if (document.getElementById("specviz-style")) return;
  document.head.append(el("style", { id: "specviz-style" }, css));
}

/** The value as plain data: a message comes as text (see StepPlayer.postprocess). */
function unwrapped(value) {
  return value ? JSON.parse(typeof value === "string" ? value : JSON.stringify(value)) : null;
}

/** The address of the vendored bundle below the app's own root, which may lie behind a prefix. */
function plotlyUrl(path) {
  const root = window.gradio_config?.root || new URL(".", document.baseURI).href;
  return `${root.replace(/\/$/, "")}/gradio_api/file=${path}`;
}

/** Load plotly once and keep it as ours: another part of a page may bring another version under the same global name. */
function loadPlotly(url) {
  window.specvizPlotly ||= new Promise((resolve, reject) => {
    const other = window.Plotly;
    const script = el("script", { src: url, async: true });
    script.onload = () => {
      const ours = window.Plotly;
      if (other) window.Plotly = other;
      resolve(ours);
    };
    script.onerror = () => reject(new Error("plotly could not be loaded"));
    document.head.append(script);
  });
  return window.specvizPlotly;
}
