"""The figures that must not fall below a bar, from the tables of one measurement."""

from dataclasses import dataclass
from statistics import mean
from typing import Any

from tests.bench.engine import LONG, LOSSLESS, PROMPTS, SHORT, K, Row

SHARE, RECORDING, START, MEMORY, TOLERANCE = 0.45, 0.90, 8.0, 1.5, 0.30
OWN, ASSISTED, BEST_REWRITE, BEST_MEAN = 2.0, 2.0, 1.8, 1.3


@dataclass(frozen=True)
class Bar:
    """A figure, its bar, and whether it holds; `above` says that more is better."""

    figure: str
    value: float
    bar: float
    above: bool = True

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side of its bar."""
        return self.value >= self.bar if self.above else self.value <= self.bar

    def row(self) -> Row:
        """As a line of a table."""
        return {
            "figure": self.figure,
            "value": self.value,
            "bar": f"{'≥' if self.above else '≤'} {self.bar:g}",
            "met": "yes" if self.met else "NO",
        }


def bars(tables: dict[str, list[Row]], bandwidth: float) -> list[Row]:
    """All bars for which the tables have the figures; `bandwidth` is the measured one in bytes/s."""
    found: list[Bar] = []
    for temperature in (0.0, 1.0):
        found += _speeds(tables[f"speed (T = {temperature:g})"], temperature)
    found += _llama(tables)
    alone = tables["a target pass by its tokens"][0]
    found.append(Bar("bytes of a plain pass ÷ its time ÷ measured bandwidth", alone["gbytes"] * 1e9 / bandwidth, SHARE))
    for row in tables["recording"]:
        found.append(Bar(f"{row['contender']}, T = {row['temperature']:g}: recording ÷ not", row["with_by_without"], RECORDING))
    long = next(row for row in tables["a plain pass by its context"] if row["context"] == LONG)
    off = abs(long["times_short"] / long["predicted"] - 1)
    found.append(Bar(f"plain pass at {LONG} ÷ at {SHORT} tokens: off what the bytes predict by", off, TOLERANCE, above=False))
    started = tables["a process of its own"][0]
    found.append(Bar("second start to first token, s", started["first_token_s"], START, above=False))
    found.append(Bar("peak memory of the embedded pair, GB", started["peak_gb"], MEMORY, above=False))
    return [bar.row() for bar in found]


def _speeds(rows: list[Row], temperature: float) -> list[Bar]:
    taken = {(row["prompt"], row["contender"]): row["ms_per_token"] for row in rows}
    at = f"T = {temperature:g}: "

    def faster(ours: str, theirs: str) -> float:
        return mean(taken[prompt, theirs] / taken[prompt, ours] for prompt in PROMPTS)

    best = {prompt: max(taken[prompt, "plain"] / taken[prompt, name] for name in LOSSLESS) for prompt in PROMPTS}
    return [
        Bar(f"{at}plain, ours ÷ transformers", faster("plain", "transformers"), OWN),
        Bar(f"{at}draft {K}, ours ÷ transformers with the same draft", faster(f"draft {K}", f"transformers, assistant {K}"), ASSISTED),
        Bar(f"{at}best lossless method ÷ our plain, rewrite", best["rewrite"], BEST_REWRITE),
        Bar(f"{at}best lossless method ÷ our plain, mean of the four", mean(best.values()), BEST_MEAN),
    ]


def _llama(tables: dict[str, list[Row]]) -> list[Bar]:
    theirs = {row["prompt"]: row["ms_per_token"] for row in tables.get("llama.cpp on the GGUF file (T = 0)", ())}
    if not theirs:
        return []
    taken = {(row["prompt"], row["contender"]): row["ms_per_token"] for row in tables["speed (T = 0)"]}
    best = [theirs[prompt] / min(taken[prompt, name] for name in LOSSLESS) for prompt in PROMPTS]
    return [Bar("T = 0: our best lossless method ÷ llama.cpp's plain decoding (4-bit weights), mean of the four", mean(best), 1.0)]


def figure(tables: dict[str, list[Row]]) -> Any:
    """A plotly figure: milliseconds a token by prompt and contender."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    names = [name for name in tables if name.startswith("speed")]
    drawn = make_subplots(rows=len(names), cols=1, subplot_titles=names, vertical_spacing=0.12)
    for i, name in enumerate(names, start=1):
        for contender in dict.fromkeys(row["contender"] for row in tables[name]):
            rows = [row for row in tables[name] if row["contender"] == contender]
            bar = go.Bar(x=[row["prompt"] for row in rows], y=[row["ms_per_token"] for row in rows], name=contender, showlegend=i == 1)
            drawn.add_trace(bar, row=i, col=1)
        drawn.update_yaxes(title_text="ms a token", row=i, col=1)
    return drawn.update_layout(template="plotly_white", barmode="group", height=420 * len(names), title="Decoding, 128 new tokens")
