"""The command line: every command imports what it uses, for torch takes seconds to import and `--help` needs none of it."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz.account import Account, printable
from specviz.cli_train import train
from specviz.config import DecodeConfig, Method, NgramMatch, Rule
from specviz.i18n import Fault, t
from specviz.options import Device, Dtype, HeadsPath, PairName, application, argument, load_pair, option
from specviz.terminal import LANG, complain, prepare, progress_bar, sentences

if TYPE_CHECKING:
    from specviz.engine.lm import Pair
    from specviz.models.catalog import Entry
    from specviz.models.device import Placement
    from specviz.trace import Trace

COLUMNS = ("cli.column_name", "cli.column_parts", "cli.column_memory", "cli.column_licence", "cli.column_state")


app = application("cli.app")
app.add_typer(train, name="train")


@app.command(help=t(LANG, "cli.run"))
def run(
    prompt: Annotated[str, option("cli.prompt", "--prompt")],
    method: Annotated[str | None, option("cli.method", "--method")] = None,
    rule: Annotated[str, option("cli.rule", "--rule")] = "rejection",
    k: Annotated[int, option("cli.k", "--k")] = 5,
    tree: Annotated[str | None, option("cli.tree", "--tree")] = None,
    ngram_max: Annotated[int, option("cli.ngram_max", "--ngram-max")] = 4,
    ngram_min: Annotated[int, option("cli.ngram_min", "--ngram-min")] = 2,
    ngram_match: Annotated[str, option("cli.ngram_match", "--ngram-match")] = "recent",
    temperature: Annotated[float, option("cli.temperature", "--temperature")] = 0.0,
    top_k: Annotated[int, option("cli.top_k", "--top-k")] = 0,
    top_p: Annotated[float, option("cli.top_p", "--top-p")] = 1.0,
    repetition_penalty: Annotated[float, option("cli.repetition_penalty", "--repetition-penalty")] = 1.0,
    epsilon: Annotated[float, option("cli.epsilon", "--epsilon")] = 0.09,
    delta: Annotated[float, option("cli.delta", "--delta")] = 0.3,
    max_new_tokens: Annotated[int, option("cli.max_new_tokens", "--max-new-tokens")] = 64,
    seed: Annotated[int, option("cli.seed", "--seed")] = 0,
    no_chat: Annotated[bool, option("cli.no_chat", "--no-chat")] = False,
    no_baseline: Annotated[bool, option("cli.no_baseline", "--no-baseline")] = False,
    pair: PairName = None,
    heads: HeadsPath = None,
    device: Device = None,
    dtype: Dtype = None,
    out: Annotated[Path | None, option("cli.out", "--out")] = None,
    as_json: Annotated[bool, option("cli.json", "--json")] = False,
) -> None:
    """Decode a prompt, printing each step as soon as it is committed; heads that are named are used where no method is."""
    with sentences():
        method = method or ("draft" if heads is None else "medusa")
        config = DecodeConfig(
            method=cast(Method, method), rule=cast(Rule, rule), k=k, tree=tree, ngram_max=ngram_max, ngram_min=ngram_min,
            ngram_match=cast(NgramMatch, ngram_match), temperature=temperature, top_k=top_k, top_p=top_p,
            repetition_penalty=repetition_penalty, epsilon=epsilon, delta=delta, max_new_tokens=max_new_tokens, seed=seed, chat=not no_chat,
        )  # fmt: skip
        if out is not None:
            _check_writable(out)
        text = sys.stdin.read() if prompt == "-" else prompt
        account = Account(Console(quiet=as_json, highlight=False), LANG, config)
        trace = _run(load_pair(pair, device, dtype, heads=heads), text, config, account, not no_baseline, as_json or out is not None)
        if as_json:
            sys.stdout.buffer.write(trace.to_json() + b"\n")
        if out is not None:
            trace.save(out)
            account.say("cli.saved", path=out)


@app.command(help=t(LANG, "cli.models"))
def models(device: Device = None, dtype: Dtype = None) -> None:
    """A table of the catalogue."""
    with sentences():
        from specviz.models.catalog import ENTRIES, HEADROOM
        from specviz.models.device import free_memory, place
        from specviz.models.embedded import SMOLLM2

        where = place(device, dtype)
        name, free = str(where.dtype).removeprefix("torch."), f"{free_memory(where.device) / 1e9:.1f}"
        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, column in enumerate(COLUMNS):
            table.add_column(t(LANG, column, dtype=name), overflow="fold", no_wrap=i < 2)
        for entry in ENTRIES:
            parts = [f"{part.repo.split('/')[-1]} @ {part.revision if entry.hub else SMOLLM2.requirement}" for part in entry.parts]
            parts += [] if entry.hub else [t(LANG, "cli.adapted_parts" if entry.adapter else "cli.shipped_parts")]
            memory = f"{entry.memory(where.dtype.itemsize) / 1e9:.1f}"
            table.add_row(entry.name, "\n".join(parts), memory, "\n".join(entry.licences), _state(entry, where))
        console = Console(highlight=False)
        console.print(table)
        console.print(Text(t(LANG, "cli.models_on", device=where.name, dtype=name, free=free), "dim"))
        console.print(Text(t(LANG, "cli.memory_note", headroom=round(100 * (HEADROOM - 1))), "dim"))


@app.command(help=t(LANG, "cli.check_pair"))
def check_pair(target: Annotated[str, argument("cli.target")], draft: Annotated[str, argument("cli.draft")]) -> None:
    """Compare tokenizers and padded vocabularies."""
    with sentences():
        from specviz.models import pairs

        fit = pairs.check_pair(target, draft)
        Console(highlight=False, soft_wrap=True).print(Text(printable(fit.sentence(LANG))))
    raise typer.Exit(0 if fit.fits else 1)


@app.command(help=t(LANG, "cli.fetch"))
def fetch() -> None:
    """Fetch the embedded model, once."""
    with sentences():
        Console(highlight=False, soft_wrap=True).print(Text(t(LANG, "cli.fetched", folder=_fetch())))


@app.command(help=t(LANG, "cli.serve"))
def serve(
    host: Annotated[str | None, option("cli.host", "--host")] = None,
    port: Annotated[int | None, option("cli.port", "--port")] = None,
    pair: PairName = None,
    heads: HeadsPath = None,
) -> None:
    """Show the page; recorded runs can be watched where the model cannot be fetched. Heads that are named have to fit their pair first."""
    with sentences():
        from specviz.models.catalog import find
        from specviz.models.hub import default_name
        from specviz.ui import build

        name = pair or default_name()
        if heads is not None:
            _load_with(name, heads)
        elif not find(name).hub:
            try:
                _fetch()
            except Fault as fault:
                complain(fault)
                complain(Fault("cli.no_model_yet"))
        build.serve(host, port, name)


@app.command(help=t(LANG, "cli.record"))
def record(out: Annotated[Path | None, option("cli.folder", "--out")] = None) -> None:
    """Record the runs that a first visit shows."""
    with sentences():
        from specviz.ui import record as recording

        for path in recording.record(out or recording.FOLDER):
            Console(highlight=False, soft_wrap=True).print(Text(t(LANG, "cli.saved", path=path)))


def main() -> None:
    """The program."""
    prepare()
    app()


def _run(pair: "Pair", prompt: str, config: DecodeConfig, account: Account, baseline: bool, whole: bool) -> "Trace":
    """Decode and tell; an interruption ends the run, not the program. A trace that is `whole` carries the machine's roofs."""
    from specviz.analysis.hardware import peaks
    from specviz.engine import loop
    from specviz.engine.run import finish, header
    from specviz.engine.timings import sized, timings

    loop.decode(pair, prompt, config)  # first of all: it refuses what makes no sense
    roofs = peaks(str(pair.target.device), str(pair.target.dtype).removeprefix("torch.")) if whole else None
    with account.console.status(t(LANG, "account.baseline")):
        measured = timings(pair, config.method) if baseline else None
        config = sized(config, measured) if measured else config
        plain = loop.baseline(pair, prompt, config) if baseline else None
    head, steps = header(pair, prompt, config, plain, roofs, measured), []
    account.opening(head)
    with contextlib.suppress(KeyboardInterrupt):
        for step in loop.decode(pair, prompt, config):
            steps.append(step)
            account.step(step)
    trace = finish(head, steps)
    account.totals(trace)
    return trace


def _load_with(name: str, heads: Path) -> None:
    """Load the pair `name` with these heads, for the page to show it so."""
    from specviz.models import load

    with progress_bar() as show:
        pair = load.load_instead(name, load.heads_at(heads), show)
    shown = {"pair": name, "target": pair.target.info.name, "heads": pair.medusa.info.name if pair.medusa else ""}
    Console(highlight=False, soft_wrap=True).print(Text(printable(t(LANG, "cli.serve_heads", **shown))))


def _fetch() -> Path:
    from specviz.models import embedded

    with progress_bar() as show:
        return embedded.fetch(show)


def _state(entry: "Entry", where: "Placement") -> str:
    """Whether a pair fits, is here, or can be had."""
    from specviz.models import embedded, hub
    from specviz.models.device import free_memory

    free = free_memory(where.device)
    if entry.memory(where.dtype.itemsize) > free:
        return t(LANG, "cli.state_too_large", free=f"{free / 1e9:.1f}")
    if not entry.hub:
        return t(LANG, "cli.state_cached" if embedded.cached() else "cli.state_index")
    if all(hub.cached(part) for part in entry.parts):
        return t(LANG, "cli.state_cached")
    if not hub.answers(entry):
        return t(LANG, "cli.state_unreachable")
    return t(LANG, "cli.state_gated" if any(part.gated for part in entry.parts) else "cli.state_reachable")


def _check_writable(path: Path) -> None:
    """Before minutes of decoding, not after."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab"):
            pass
    except OSError as error:
        raise Fault("cli.unwritable", path=path, reason=error.strerror or error) from error
