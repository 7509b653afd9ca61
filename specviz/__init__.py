"""SpecViz: watch a real language model decode speculatively, one step at a time.

pair = specviz.load()
for step in specviz.decode(pair, "Why is the sky blue?", method="draft", k=5):
    print([token.text for token in step.emitted])
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.config import DecodeConfig
from specviz.i18n import Fault
from specviz.trace import Step, Trace

if TYPE_CHECKING:
    from specviz.engine.lm import Pair

__version__ = "0.1.0"
__all__ = ["DecodeConfig", "Fault", "Step", "Trace", "decode", "load", "rejudge", "run"]


def load(
    name: str = "embedded",
    device: str | None = None,
    dtype: str | None = None,
    engine: str | None = None,
    heads: Path | str | None = None,
) -> "Pair":
    """Load a pair of the catalog (`python -m specviz models`) on a device ("cpu", "cuda") in a dtype ("float32", "bfloat16").

    None means what the machine has. `engine` is "fast" or "hf" (transformers' own model, the reference); None is the fast one wherever
    it serves the architecture. `heads` are Medusa heads in the place of the pair's own: a file or a folder, as `python -m specviz train`
    writes them or in a public format; an adapter in that folder comes with them, and the target is another model then. The draft stays.
    Raises Fault, with one sentence, where the pair is unknown, does not fit or cannot be reached, or heads do not fit its target.
    """
    from specviz.models import load as loading  # torch takes seconds to import: traces and figures do without

    return loading.load(name, device, dtype, engine=engine, parts=None if heads is None else loading.heads_at(heads))


def decode(pair: "Pair", prompt: str, **parameters: Any) -> Iterator[Step]:
    """Decode `prompt` speculatively, yielding each step as soon as it is committed; parameters are those of `DecodeConfig`.

    Raises Fault (a ValueError), with one sentence, before the first step where the combination makes no sense.
    """
    from specviz.engine.loop import decode as decode_steps

    return decode_steps(pair, prompt, DecodeConfig(**parameters))


def run(pair: "Pair", prompt: str, baseline: bool = True, **parameters: Any) -> Trace:
    """A whole run as a `Trace`, with plain decoding measured on the same prompt first unless `baseline=False`.

    The roofs of the machine are measured too, once (about a second), and remembered.
    """
    from specviz.analysis.hardware import peaks
    from specviz.engine.run import run as run_whole

    config = DecodeConfig(**parameters)
    roofs = peaks(str(pair.target.device), str(pair.target.dtype).removeprefix("torch.")) if baseline else None
    return run_whole(pair, prompt, config, baseline, roofs)


def rejudge(trace: Trace, rule: str | None = None, epsilon: float | None = None, delta: float | None = None) -> list[Step]:
    """The recorded steps as another rule, ε or δ judges them, each from its recorded start; no model is asked.

    From the first step whose tokens differ on, the records belong to a text that those parameters would not have written. At temperature
    0 every rule is the argmax. Raises Fault for parameters that make no sense.
    """
    from specviz.engine.rejudge import rejudged

    asked: dict[str, Any] = {"rule": rule, "epsilon": epsilon, "delta": delta}
    config = replace(trace.header.config, **{name: value for name, value in asked.items() if value is not None})
    return [rejudged(step, config, trace.header.eos_ids) for step in trace.steps]
