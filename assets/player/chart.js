/* One plotly figure in one element. Figures come from Python without language or theme; here their strings and colours are filled in. */

const PLOT_OPTIONS = {
  displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", showTips: false, scrollZoom: false,
  doubleClick: false, responsive: false,
};

/** A copy of a figure with "@key" said in the current language and "var:name" replaced by the colour of the current theme. */
function resolved(value, words, colours) {
  if (typeof value === "string") {
    if (value.startsWith("var:")) return colours[value.slice(4)] ?? colours.ink;
    return value.startsWith("@") ? words.resolve(value) : value;
  }
  if (Array.isArray(value)) {
    return value.length && typeof value[0] === "number" && typeof value[value.length - 1] === "number"
      ? value : value.map((item) => resolved(item, words, colours));
  }
  if (value === null || typeof value !== "object") return value;
  const copy = {};
  for (const key in value) copy[key] = resolved(value[key], words, colours);
  return copy;
}

/** plotly reads pseudo-HTML in every label; token texts must stay literal. */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

/** Give a panel or card a chart of the player or tab `owner` in its body, with a line of text for while there is none. */
function frame(part, owner) {
  part.host = el("div.sv-chart", { role: "img" });
  part.wait = el("p.sv-wait");
  part.plot = el("div.sv-plot", null, part.host);
  part.body.append(part.plot, part.wait);
  part.chart = new Chart(part.host, owner);
}

/** The key of the sentence that stands in place of all charts, or null once they can be drawn. */
function chartless({ plotly, plotlyFailed }) {
  return plotly ? null : plotlyFailed ? "player.charts_failed" : "player.charts_loading";
}

class Chart {
  constructor(host, player) {
    this.host = host;
    this.player = player;
    this.drawn = false;
  }

  get plotly() {
    return this.player.plotly;
  }

  /** Draw a figure at the size of its host; `events` are bound once: {plotly_hover: fn, …}. */
  draw(fig, events) {
    const { wide: width, high: height } = sizeOf(this.host);
    if (!this.plotly || width < 40 || height < 40) return false;
    const { words, colours } = this.player;
    const layout = { ...resolved(fig.layout, words, colours), width, height, autosize: false };
    this.plotly.react(this.host, resolved(fig.data, words, colours), layout, PLOT_OPTIONS);
    if (!this.drawn) {
      for (const [name, handler] of Object.entries(events || {})) this.host.on(name, handler);
      this.drawn = true;
    }
    return true;
  }

  clear() {
    if (this.drawn) this.plotly.purge(this.host);
    this.drawn = false;
  }

  /** Pixels, from the corner of the host, of a point of the first pair of axes. */
  pixels(x, y) {
    const { xaxis, yaxis } = this.host._fullLayout;
    return [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y)];
  }
}
