"""A whole run: the header that makes its steps readable years later, the measured baseline, the steps."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import torch

import specviz
from specviz.config import DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import baseline as measure_baseline
from specviz.engine.loop import decode, encode, ended
from specviz.engine.text import prompt_start, prompt_texts
from specviz.engine.timings import sized, timings
from specviz.trace import Baseline, Header, Peaks, Step, Timings, Trace


def header(
    pair: Pair,
    prompt: str,
    config: DecodeConfig,
    baseline: Baseline | None = None,
    peaks: Peaks | None = None,
    measured: Timings | None = None,
) -> Header:
    """What is true of the whole run; raises Fault for a prompt that cannot be taken."""
    proposer = {"draft": pair.draft, "medusa": pair.medusa}.get(config.method)
    ids = encode(pair, prompt, config)
    texts = prompt_texts(pair.tokenizer, ids)
    return Header(
        program=f"specviz {specviz.__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        target=pair.target.info,
        proposer=proposer.info if proposer else None,
        engine=pair.target.engine,
        device=str(pair.target.device),
        device_name=pair.device_name,
        dtype=str(pair.target.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        config=config,
        prompt=prompt,
        prompt_ids=tuple(ids),
        prompt_texts=texts,
        prompt_start=prompt_start(pair.tokenizer, texts, prompt, config.chat),
        eos_ids=pair.eos_ids,
        versions={"python": platform.python_version(), "torch": torch.__version__, "transformers": version("transformers")},
        peaks=peaks,
        baseline=baseline,
        timings=measured,
    )


def run(pair: Pair, prompt: str, config: DecodeConfig, baseline: bool = True, peaks: Peaks | None = None) -> Trace:
    """Decode to the end; the baseline is measured first, on the same prompt, in the same process, and so are passes by their size.

    Where neither is measured, a tree cannot be sized to the machine: see `timings.sized`.
    """
    steps = decode(pair, prompt, config)  # first of all: it refuses what makes no sense
    if not baseline:
        return finish(header(pair, prompt, config, None, peaks), list(steps))
    measured = timings(pair, config.method)
    config = sized(config, measured)
    head = header(pair, prompt, config, measure_baseline(pair, prompt, config), peaks, measured)
    return finish(head, list(decode(pair, prompt, config)))


def finish(header: Header, steps: Sequence[Step]) -> Trace:
    """The trace of a run that is over, or was stopped."""
    return Trace(header=header, steps=tuple(steps), ended=ended(steps, header.config, header.eos_ids))
