"""The command line: every command imports what it uses, for torch takes seconds to import and `--help` needs none of it."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz.account import Account, printable
from specviz.config import DecodeConfig, Method, NgramMatch, Rule
from specviz.i18n import ASSETS, Fault, t
from specviz.terminal import LANG, complain, prepare, progress_bar, sentences

if TYPE_CHECKING:
    from specviz.engine.lm import Pair
    from specviz.models.catalog import Entry
    from specviz.models.device import Placement
    from specviz.trace import Trace

COLUMNS = ("cli.column_name", "cli.column_parts", "cli.column_memory", "cli.column_licence", "cli.column_state")
SHIPPED, CORPUS = ASSETS / "models" / "smollm2-135m", Path("corpus.safetensors")


def _option(key: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=t(LANG, key), **more)


def _argument(key: str) -> Any:
    return typer.Argument(help=t(LANG, key))


def _app(key: str) -> typer.Typer:
    return typer.Typer(help=t(LANG, key), no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)


app, train = _app("cli.app"), _app("cli.train")
app.add_typer(train, name="train")

PairName = Annotated[str | None, _option("cli.pair", "--pair")]
Device = Annotated[str | None, _option("cli.device", "--device")]
Dtype = Annotated[str | None, _option("cli.dtype", "--dtype")]
CorpusFile = Annotated[Path, _option("cli.corpus_file", "--corpus", exists=True, dir_okay=False)]
Folder = Annotated[Path, _option("cli.folder", "--out")]


@app.command(help=t(LANG, "cli.run"))
def run(
    prompt: Annotated[str, _option("cli.prompt", "--prompt")],
    method: Annotated[str, _option("cli.method", "--method")] = "draft",
    rule: Annotated[str, _option("cli.rule", "--rule")] = "rejection",
    k: Annotated[int, _option("cli.k", "--k")] = 5,
    tree: Annotated[str | None, _option("cli.tree", "--tree")] = None,
    ngram_max: Annotated[int, _option("cli.ngram_max", "--ngram-max")] = 4,
    ngram_min: Annotated[int, _option("cli.ngram_min", "--ngram-min")] = 2,
    ngram_match: Annotated[str, _option("cli.ngram_match", "--ngram-match")] = "recent",
    temperature: Annotated[float, _option("cli.temperature", "--temperature")] = 0.0,
    top_k: Annotated[int, _option("cli.top_k", "--top-k")] = 0,
    top_p: Annotated[float, _option("cli.top_p", "--top-p")] = 1.0,
    repetition_penalty: Annotated[float, _option("cli.repetition_penalty", "--repetition-penalty")] = 1.0,
    epsilon: Annotated[float, _option("cli.epsilon", "--epsilon")] = 0.09,
    delta: Annotated[float, _option("cli.delta", "--delta")] = 0.3,
    max_new_tokens: Annotated[int, _option("cli.max_new_tokens", "--max-new-tokens")] = 64,
    seed: Annotated[int, _option("cli.seed", "--seed")] = 0,
    no_chat: Annotated[bool, _option("cli.no_chat", "--no-chat")] = False,
    no_baseline: Annotated[bool, _option("cli.no_baseline", "--no-baseline")] = False,
    pair: PairName = None,
    device: Device = None,
    dtype: Dtype = None,
    out: Annotated[Path | None, _option("cli.out", "--out")] = None,
    as_json: Annotated[bool, _option("cli.json", "--json")] = False,
) -> None:
    """Decode a prompt, printing each step as soon as it is committed."""
    with sentences():
        config = DecodeConfig(
            method=cast(Method, method), rule=cast(Rule, rule), k=k, tree=tree, ngram_max=ngram_max, ngram_min=ngram_min,
            ngram_match=cast(NgramMatch, ngram_match), temperature=temperature, top_k=top_k, top_p=top_p,
            repetition_penalty=repetition_penalty, epsilon=epsilon, delta=delta, max_new_tokens=max_new_tokens, seed=seed, chat=not no_chat,
        )  # fmt: skip
        if out is not None:
            _check_writable(out)
        text = sys.stdin.read() if prompt == "-" else prompt
        account = Account(Console(quiet=as_json, highlight=False), LANG, config)
        trace = _run(_load(pair, device, dtype), text, config, account, not no_baseline, whole=as_json or out is not None)
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
            parts += [] if entry.hub else [t(LANG, "cli.shipped_parts")]
            memory = f"{entry.memory(where.dtype.itemsize) / 1e9:.1f}"
            table.add_row(entry.name, "\n".join(parts), memory, "\n".join(entry.licences), _state(entry, where))
        console = Console(highlight=False)
        console.print(table)
        console.print(Text(t(LANG, "cli.models_on", device=where.name, dtype=name, free=free), "dim"))
        console.print(Text(t(LANG, "cli.memory_note", headroom=round(100 * (HEADROOM - 1))), "dim"))


@app.command(help=t(LANG, "cli.check_pair"))
def check_pair(target: Annotated[str, _argument("cli.target")], draft: Annotated[str, _argument("cli.draft")]) -> None:
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
    host: Annotated[str | None, _option("cli.host", "--host")] = None,
    port: Annotated[int | None, _option("cli.port", "--port")] = None,
    pair: PairName = None,
) -> None:
    """Show the page; recorded runs can be watched where the model cannot be fetched."""
    with sentences():
        from specviz.models.hub import default_name
        from specviz.ui import build

        name = pair or default_name()
        if name == "embedded":
            try:
                _fetch()
            except Fault as fault:
                complain(fault)
                complain(Fault("cli.no_model_yet"))
        build.serve(host, port, name)


@train.command("corpus", help=t(LANG, "cli.train_corpus"))
def train_corpus(
    tokens: Annotated[int, _option("cli.corpus_tokens", "--tokens")] = 640_000,
    rows: Annotated[int, _option("cli.corpus_rows", "--rows")] = 192,
    seed: Annotated[int, _option("cli.seed", "--seed")] = 0,
    out: Annotated[Path, _option("cli.corpus_file", "--out")] = CORPUS,
) -> None:
    """Write the self-distilled corpus."""
    with sentences():
        from specviz.training.corpus import write_corpus

        pair = _load("embedded", None, None, "hf")
        model = cast(Any, pair.target).model
        with progress_bar() as show:
            corpus = write_corpus(model, pair.tokenizer, tokens, rows, seed, lambda done: show("cli.writing", min(1.0, done / tokens)))
        corpus.save(out)


@train.command("draft", help=t(LANG, "cli.train_draft"))
def train_draft(corpus: CorpusFile = CORPUS, out: Folder = SHIPPED) -> None:
    """Distil a draft."""
    with sentences():
        from specviz.training import draft

        draft.make(corpus, out, _target())


@train.command("medusa", help=t(LANG, "cli.train_medusa"))
def train_medusa(corpus: CorpusFile = CORPUS, out: Folder = SHIPPED) -> None:
    """Train heads, and calibrate them."""
    with sentences():
        from specviz.training import medusa

        medusa.make(corpus, out, _target())


@train.command("calibrate", help=t(LANG, "cli.train_calibrate"))
def train_calibrate(corpus: CorpusFile = CORPUS, out: Folder = SHIPPED) -> None:
    """Measure the rank accuracies of the heads in the folder."""
    with sentences():
        from specviz.training import calibrate

        calibrate.make(corpus, out, _target())


@train.command("evaluate", help=t(LANG, "cli.train_evaluate"))
def train_evaluate(out: Folder = SHIPPED) -> None:
    """Measure acceptance of the shipped parts, and write their cards."""
    with sentences():
        from specviz.training import evaluate

        evaluate.make(_load("embedded", None, None), out)


@app.command(help=t(LANG, "cli.record"))
def record(out: Annotated[Path | None, _option("cli.folder", "--out")] = None) -> None:
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


def _load(pair: str | None, device: str | None, dtype: str | None, engine: str | None = None) -> "Pair":
    from specviz.models.hub import default_name
    from specviz.models.load import load

    with progress_bar() as show:
        return load(pair or default_name(), device, dtype, show, engine)


def _target() -> Any:
    """The transformers model of the embedded target."""
    return cast(Any, _load("embedded", None, None, "hf").target).model


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
