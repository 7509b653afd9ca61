"""python -m tests.bench [engine|page] [--quick]: measure, print tables, write bench-results/<time>.json and a plot, latest.html."""

import argparse
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table

from specviz.analysis.quantities import number

RESULTS = Path(__file__).resolve().parents[2] / "bench-results"
BUSY = 0.3  # load average a core before we start: more, and something else is running


def machine() -> dict[str, Any]:
    """What ran the measurements, and how busy it was."""
    from specviz.analysis.hardware import processor

    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    return {
        "processor": processor("cuda" if torch.cuda.is_available() else "cpu"),
        "cores": cores,
        "load_before": load,
        "busy": load > BUSY * cores,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def engine(quick: bool, repeats: int) -> dict[str, list[dict[str, Any]]]:
    """Every table of the engine, on the embedded pair, and the bars that its figures must reach."""
    import specviz
    from specviz.analysis.hardware import peaks
    from tests.bench import bars, llama, process
    from tests.bench import engine as bench

    pair, reference = specviz.load("embedded"), specviz.load("embedded", engine="hf")
    roofs = peaks(str(pair.target.device), str(pair.target.dtype).removeprefix("torch."), refresh=True)
    tokens = 32 if quick else 128
    tables = {f"speed (T = {at:g})": bench.speeds(pair, reference, tokens, repeats, at) for at in (0.0, 1.0)}
    tables |= {
        "a target pass by its tokens": bench.passes(pair, 3 if quick else 15),
        "a plain pass by its context": bench.contexts(pair, 3 if quick else 15),
        "recording": bench.recording(pair, 32 if quick else 64, 3 if quick else 7),
        "a process of its own": process.measure(1 if quick else 3),
        "roofs": [{"gflops": roofs.flops / 1e9, "gbytes": roofs.bandwidth / 1e9, "measured_on": roofs.measured_on}],
    }
    if llama.there():
        tables["llama.cpp on the GGUF file (T = 0)"] = llama.speeds(pair, tokens, repeats)
    bars.figure(tables).write_html(RESULTS / "latest.html")
    return {**tables, "bars": bars.bars(tables, roofs.bandwidth)}


def page(quick: bool, _repeats: int) -> dict[str, list[dict[str, Any]]]:
    """The table of the page."""
    from tests.bench import page as bench

    return {"the page (headless Chromium)": bench.measure(2 if quick else 7, 25 if quick else 105)}


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """One table."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(number(value) if isinstance(value, float) else "–" if value is None else str(value) for value in row.values()))
    console.print(table)


def main() -> None:
    """Measure what was asked for, everything by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["engine", "page", "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="few repeats: to see that it works, not to record")
    parser.add_argument("--repeats", type=int, default=3, help="of every run that is compared, after one that warms up")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    parts = {"engine": engine, "page": page}
    console = Console()
    report: dict[str, Any] = {"machine": machine(), "quick": asked.quick, "measured": datetime.now(UTC).isoformat(timespec="seconds")}
    if report["machine"]["busy"]:
        console.print(f"[bold]This machine is busy (load {report['machine']['load_before']:.1f}): do not record these figures.[/bold]")
    for name in parts if asked.what == "all" else [asked.what]:
        tables = parts[name](asked.quick, asked.repeats)
        report[name] = tables
        for title, rows in tables.items():
            show(console, title, rows)
    report["machine"]["threads"] = torch.get_num_threads()  # as the models were loaded with
    file = RESULTS / f"{report['measured'].replace(':', '')}.json"
    file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console.print(f"Written to {file.relative_to(RESULTS.parent)}")


if __name__ == "__main__":
    main()
