"""The commands that make drafts and heads: a corpus, trainings on it, calibration, evaluation. What they write has a card beside it."""

import signal
import threading
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from specviz.cli_follow import ask, follow, resumable, signals
from specviz.i18n import ASSETS, Fault, t
from specviz.options import Device, Dtype, PairName, application, load_pair, option
from specviz.terminal import LANG, amount_bar, progress_bar, sentences

SHIPPED, CORPUS = ASSETS / "models" / "smollm2-135m", Path("corpus")
train = application("cli.train")

TrainedPair = Annotated[str, option("cli.trained_pair", "--pair")]
CorpusFolder = Annotated[Path, option("cli.corpus_folder", "--corpus")]
Out = Annotated[Path, option("cli.folder", "--out")]
Start = Annotated[Path | None, option("cli.start", "--from", exists=True, file_okay=False)]
Epochs = Annotated[float, option("cli.epochs", "--epochs", min=0.001)]
Minutes = Annotated[float | None, option("cli.minutes", "--minutes", min=0.05)]
Batch = Annotated[int, option("cli.batch", "--batch", min=1)]
Peak = Annotated[float | None, option("cli.peak", "--peak", min=0.0, max=1.0)]
Seed = Annotated[int, option("cli.seed", "--seed", min=0)]
Heads = Annotated[int, option("cli.heads", "--heads", min=1, max=16)]
Layers = Annotated[int, option("cli.head_layers", "--layers", min=1, max=8)]
Vocabulary = Annotated[int | None, option("cli.vocabulary", "--vocabulary", min=1)]
Untied = Annotated[bool, option("cli.untied", "--untied")]
Labels = Annotated[str | None, option("cli.labels", "--labels")]


@train.command("corpus", help=t(LANG, "cli.train_corpus"))
def train_corpus(
    tokens: Annotated[int | None, option("cli.corpus_tokens", "--tokens", min=1)] = None,
    rows: Annotated[int | None, option("cli.corpus_rows", "--rows", min=1)] = None,
    seed: Annotated[int | None, option("cli.seed", "--seed", min=0)] = None,
    prompts: Annotated[Path | None, option("cli.corpus_prompts", "--prompts", exists=True, dir_okay=False)] = None,
    share: Annotated[str | None, option("cli.corpus_share", "--share")] = None,
    chat: Annotated[Path | None, option("cli.corpus_chat", "--chat", exists=True, dir_okay=False)] = None,
    pair: TrainedPair = "embedded",
    device: Device = None,
    dtype: Dtype = None,
    out: Annotated[Path, option("cli.corpus_folder", "--out")] = CORPUS,
) -> None:
    """Write a corpus; an interrupted one is taken up where it was left."""
    with sentences(), resumable(out):
        from specviz.models.files import writing
        from specviz.training import chat as chats
        from specviz.training import corpus

        if chat is not None:
            if unused := _given(rows=rows, seed=seed, prompts=prompts, share=share):
                raise Fault("training.not_with_chat", names=", ".join(f"--{name}" for name in unused))
            model = load_pair(pair, device, dtype)
            with amount_bar("cli.reading") as show, writing(out):
                chats.write(model, chat, out, tokens, show)
        else:
            asked = None if prompts is None else _prompts(prompts)
            settings, part = corpus.Settings(**_given(tokens=tokens, rows=rows, seed=seed, prompts=asked)), corpus.share_of(share or "1/1")
            model = load_pair(pair, device, dtype)
            with amount_bar("cli.writing", -(-settings.tokens // part[1])) as show, writing(out):
                corpus.write(model, settings, out, show, part)
        print(t(LANG, "cli.saved", path=out))


@train.command("draft", help=t(LANG, "cli.train_draft"))
def train_draft(
    corpus: CorpusFolder = CORPUS,
    layers: Annotated[str, option("cli.draft_layers", "--layers")] = "0,1,2,29",
    vocabulary: Vocabulary = None,
    epochs: Epochs = 1.0,
    minutes: Minutes = None,
    batch: Batch = 2048,
    peak: Peak = None,
    seed: Seed = 0,
    start: Start = None,
    pair: TrainedPair = "embedded",
    out: Out = Path("draft"),
) -> None:
    """Distil a draft from some of the target's layers."""
    with sentences():
        from specviz.training import draft, make

        kept = make.layers_of(layers)
        recipe = draft.Recipe(
            **_given(layers=kept, vocabulary=vocabulary, epochs=epochs, minutes=minutes, batch=batch, peak=peak, seed=seed)
        )
        target = _target(pair, corpus, out)
        follow(make.draft(target.model, corpus, out, recipe, start, called=target.info.name), out)


@train.command("medusa", help=t(LANG, "cli.train_medusa"))
def train_medusa(
    corpus: CorpusFolder = CORPUS,
    heads: Heads = 4,
    layers: Layers = 1,
    vocabulary: Vocabulary = None,
    untied: Untied = False,
    labels: Labels = None,
    epochs: Epochs = 1.0,
    minutes: Minutes = None,
    batch: Batch = 2048,
    peak: Peak = None,
    seed: Seed = 0,
    start: Start = None,
    pair: TrainedPair = "embedded",
    out: Out = Path("medusa"),
) -> None:
    """Train heads on a frozen backbone."""
    with sentences():
        from specviz.training import make, medusa

        recipe = medusa.Recipe(
            **_given(heads=heads, layers=layers, vocabulary=vocabulary, untied=untied, labels=labels, epochs=epochs, minutes=minutes,
                     batch=batch, peak=peak, seed=seed)
        )  # fmt: skip
        target = _target(pair, corpus, out)
        follow(make.medusa1(target.model, corpus, out, recipe, start, called=target.info.name), out)


@train.command("medusa2", help=t(LANG, "cli.train_medusa2"))
def train_medusa2(
    corpus: CorpusFolder = CORPUS,
    heads: Heads = 4,
    layers: Layers = 1,
    vocabulary: Vocabulary = None,
    untied: Untied = False,
    rank: Annotated[int, option("cli.rank", "--rank", min=1)] = 16,
    depth: Annotated[int, option("cli.depth", "--depth", min=1)] = 12,
    lm: Annotated[str | None, option("cli.lm", "--lm")] = None,
    labels: Labels = None,
    warm: Annotated[float, option("cli.warm", "--warm", min=0.0)] = 1.0,
    epochs: Epochs = 1.0,
    minutes: Minutes = None,
    batch: Batch = 2048,
    peak: Peak = None,
    seed: Seed = 0,
    start: Start = None,
    pair: TrainedPair = "embedded",
    out: Out = Path("medusa2"),
) -> None:
    """Train heads and backbone together."""
    with sentences():
        from specviz.training import make, medusa2

        recipe = medusa2.Recipe(
            **_given(
                heads=heads, layers=layers, vocabulary=vocabulary, untied=untied, rank=rank, alpha=rank, depth=depth, lm=lm, labels=labels,
                epochs=epochs, minutes=minutes, batch=batch, peak=peak, seed=seed,
            )
        )  # fmt: skip
        target = _target(pair, corpus, out)
        follow(make.medusa2(target.model, corpus, out, recipe, start, warm, called=target.info.name), out)


@train.command("soften", help=t(LANG, "cli.train_soften"))
def train_soften(
    corpus: CorpusFolder = CORPUS,
    most: Annotated[float, option("cli.most_kl", "--most-kl", min=1e-6)] = 0.02,
    pair: TrainedPair = "embedded",
    out: Out = Path("medusa2"),
) -> None:
    """Bring the adapter in `out` nearer to the original."""
    with sentences():
        from specviz.training import make

        def tell(alpha: float, kl: float) -> None:
            print(t(LANG, "cli.softened", alpha=f"{alpha:.2f}", kl=f"{kl:.4f}"), flush=True)

        make.soften(_target(pair, corpus, out).model, corpus, out, most, tell)


@train.command("heads", help=t(LANG, "cli.train_heads"))
def train_heads(
    out: Out,
    minutes: Annotated[float, option("cli.budget", "--minutes")] = 10.0,
    pair: PairName = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Texts, Medusa heads and their calibration within a budget of minutes; an interrupted run is taken up where it was left."""
    with sentences(), signals(signal.default_int_handler):
        from specviz.models.hub import default_name
        from specviz.training import quick, status

        name = pair or default_name()
        with status.sitting(out, name, status.minutes(minutes)) as run:
            model, asked = load_pair(name, device, dtype), threading.Event()
            with signals(lambda *_: ask(asked)), progress_bar() as show:
                quick.heads(model, out, run, asked.is_set, lambda told: show(f"cli.heads.{told.at}", told.seconds / told.budget))
        if run.phase == "stopped":
            print(t(LANG, "cli.heads_kept", folder=out))
            raise typer.Exit(130)
        print(t(LANG, "cli.heads_ready", folder=out))


@train.command("calibrate", help=t(LANG, "cli.train_calibrate"))
def train_calibrate(
    corpus: CorpusFolder = CORPUS,
    method: Annotated[str, option("cli.calibrated", "--method")] = "medusa",
    pair: TrainedPair = "embedded",
    out: Out = SHIPPED,
) -> None:
    """Measure how often the candidate of a rank is right at a depth; the draft or the heads are those in `out`."""
    with sentences():
        from specviz.training import calibrate, card
        from specviz.training.corpus import Corpus

        ways = {"medusa": calibrate.medusa, "draft": calibrate.draft, "ngram": calibrate.ngram}
        if method not in ways:
            raise Fault("error.unknown_choice", name="method", value=method[:40], choices=", ".join(ways))
        texts, model = Corpus.load(corpus), load_pair(pair, None, None, parts=out)
        with progress_bar() as show:
            found = ways[method](model, texts, out, lambda done: show("cli.calibrating", done))
        card.write_cards(out)
        for depth, row in enumerate(found, start=1):
            print(f"{depth}: " + " ".join(f"{value:.3f}" for value in row))


@train.command("evaluate", help=t(LANG, "cli.train_evaluate"))
def train_evaluate(
    corpus: Annotated[Path | None, option("cli.asked_corpus", "--corpus")] = None, pair: TrainedPair = "embedded", out: Out = SHIPPED
) -> None:
    """Measure acceptance of the trained parts in `out`, and write their cards."""
    with sentences():
        from specviz.training import evaluate
        from specviz.training.corpus import Corpus

        texts = None if corpus is None else Corpus.load(corpus)
        evaluate.make(load_pair(pair, None, None, parts=out), out, texts)


@train.command("export", help=t(LANG, "cli.train_export"))
def train_export(
    form: Annotated[str, option("cli.export_format", "--format")],
    out: Out,
    heads: Annotated[Path, option("cli.export_heads", "--heads", exists=True)] = SHIPPED,
    every: Annotated[bool, option("cli.export_every", "--whole-vocabulary")] = False,
    pair: TrainedPair = "embedded",
) -> None:
    """Write Medusa heads as other programs read them."""
    with sentences():
        from specviz.models.catalog import base_of
        from specviz.models.checkpoints import read_medusa
        from specviz.models.export import Export
        from specviz.models.output import lm_head

        target = lm_head(load_pair(pair, None, None).target)
        export = Export(read_medusa(heads, target), target.get_output_embeddings().weight, base_of(pair), every)
        for path in export.write(form, out):
            Console(highlight=False, soft_wrap=True).print(t(LANG, "cli.saved", path=path), markup=False)
        if form == "v1" and not export.repeats:
            Console(highlight=False, soft_wrap=True).print(t(LANG, "export.no_pickle", blocks=len(export.parts.blocks[0])), markup=False)


def _given(**values: object) -> dict[str, Any]:
    """What was said; the recipe has a default for the rest."""
    return {name: value for name, value in values.items() if value is not None}


def _prompts(path: Path) -> tuple[str, ...]:
    """The user turns of a file, one a line; raises Fault where there is none."""
    if lines := tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()):
        return lines
    raise Fault("training.empty_prompts", path=path)


def _target(pair: str, corpus: Path, out: Path) -> Any:
    """A pair's target on the reference engine; raises Fault where the corpus is of another, or its parts would replace those shipped."""
    from specviz.training import make

    if pair != "embedded" and SHIPPED in (out, out.parent):
        raise Fault("training.name_out")
    make.refuse_no_corpus(corpus)
    model = cast(Any, load_pair(pair, None, None, "hf").target)
    make.refuse_other_model(corpus, model.info.sha256)
    return model
