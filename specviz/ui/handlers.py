"""What the events of the page do. Everything that comes in is from a browser and may be anything; nothing here is kept between events.

Inputs and outputs are named by the ids of the controls.
"""

from collections.abc import AsyncIterator

import gradio as gr

from specviz.config import LONGEST_TREE, METHODS, RULES
from specviz.i18n import LANGUAGES, Fault, t
from specviz.trace import Header, Step, Trace
from specviz.ui import runs
from specviz.ui.session import Line, Stops
from specviz.ui.text import PRESETS, TREES, Chosen, controls, pair_choices

RELABELLED = (
    "pair", "method", "rule", "prompt", "preset", "k", "tree", "ngram", "ngram_match", "temperature", "top_p", "epsilon", "delta",
    "length", "seed", "run", "stop", "more",
)  # fmt: skip
PARAMETERS = (
    "pair", "method", "rule", "prompt", "k", "tree", "ngram", "ngram_match", "temperature", "top_p", "epsilon", "delta", "length", "seed",
)  # fmt: skip
CHOICES = ("method", "rule", "tree", "temperature", "preset")  # they decide about other controls
ADAPTED = ("method", "rule", "k", "tree", "ngram", "ngram_match", "temperature", "epsilon", "delta")


async def stream(*values: object, line: Line, stops: Stops, session: str) -> AsyncIterator[dict]:
    """Run, and tell the player as it happens.

    Inputs: PARAMETERS. Outputs: player.
    """
    messages = runs.Messages()
    try:
        parameters = dict(zip(PARAMETERS, values, strict=True))
        named = {"max_new_tokens": parameters.pop("length"), **_lengths(parameters.pop("ngram"))}
        asked = runs.request(**parameters, **named)
    except Fault as fault:
        yield messages.message([messages.view(fault)])
        return
    with stops.flag(session) as stopped:
        async for parts in runs.listen(lambda tell: runs.run(asked, line, stopped, tell), messages.view, stopped):
            yield messages.message(parts)


def _lengths(text: object) -> dict[str, object]:
    """The range of n: "4-2" is from 4 down to 2. What is no number is left to the check of all parameters."""
    high, _, low = str(text)[:20].partition("-")
    return {"ngram_max": int(high) if high.isdecimal() else high, "ngram_min": int(low) if low.isdecimal() else low}


async def trace(parameters: dict[str, object], line: Line, stops: Stops, session: str) -> Trace:
    """A whole run, for the public endpoint; raises Fault."""
    asked = runs.request(**parameters)
    told: list[runs.Told] = []
    with stops.flag(session) as stopped:
        async for parts in runs.listen(lambda tell: runs.run(asked, line, stopped, tell), lambda what: what, stopped):
            told += parts
    header = next((what for what in told if isinstance(what, Header)), None)
    match told[-1]:
        case Fault() as fault:
            raise fault
        case runs.Done(ended) if header:
            return Trace(header=header, steps=tuple(what for what in told if isinstance(what, Step)), ended=ended)
    raise Fault("error.stopped")


def relabel(lang: object, *choices: object) -> list[dict]:
    """Say everything in a language.

    Inputs: language, method, rule, tree, temperature, preset. Outputs: RELABELLED.
    """
    words = controls(lang if lang in LANGUAGES else "en", chosen(*choices))
    return [gr.update(**words[name]) for name in RELABELLED]


def pairs(lang: object) -> dict:
    """The pairs that there are now: heads may have been trained since the page was built.

    Inputs: language. Outputs: pair.
    """
    return gr.update(choices=pair_choices(lang if lang in LANGUAGES else "en"))


def adapt(lang: object, *choices: object) -> list[dict]:
    """Switch controls on and off, with the reason, after a choice that decides about others.

    Inputs: language, method, rule, tree, temperature, preset. Outputs: ADAPTED.
    """
    now = chosen(*choices)
    words = controls(lang if lang in LANGUAGES else "en", now)
    words["tree"]["value"] = now.tree
    return [gr.update(**words[name]) for name in ADAPTED]


def choose_preset(lang: object, preset: object) -> list[dict]:
    """Write an example into the prompt and say what it shows.

    Inputs: language, preset. Outputs: prompt, preset.
    """
    if preset not in tuple(PRESETS):
        return [gr.skip(), gr.skip()]
    lang = lang if lang in LANGUAGES else "en"
    return [gr.update(value=PRESETS[preset]), gr.update(info=t(lang, f"preset.{preset}_info"))]


def chosen(method: object, rule: object, tree: object, temperature: object, preset: object) -> Chosen:
    """What was chosen, with the default in place of what makes no sense; a tree of another method is dropped."""
    known = Chosen()
    method = method if method in METHODS else known.method
    return Chosen(
        method=method,
        rule=rule if rule in RULES else known.rule,
        tree=tree if isinstance(tree, str) and not _foreign(tree, method) else "",
        temperature=temperature if isinstance(temperature, int | float) else known.temperature,
        preset=preset if preset in tuple(PRESETS) else None,
    )


def _foreign(tree: str, method: str) -> bool:
    calibrated = any(known.startswith("sparse:") for known in TREES[method])
    return len(tree) > LONGEST_TREE or method == "plain" or (tree.startswith("sparse:") and not calibrated)


def open_trace(data: object) -> dict:
    """A trace file, as text, made ready for the player: its run_view, or {"error": {key, args}}. Called by the player itself."""
    from specviz.figures.view import run_view

    try:
        if not isinstance(data, str):
            raise Fault("error.trace_json")
        return run_view(Trace.from_json(data))
    except Fault as fault:
        return {"error": {"key": fault.key, "args": fault.values}}
    except Exception:
        runs.LOG.exception("a trace could not be shown")
        return {"error": {"key": "error.unexpected", "args": {}}}
