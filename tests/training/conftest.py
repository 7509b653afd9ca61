"""A tiny target that trains in a second, and a corpus that it wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from specviz.engine.lm import Pair
from specviz.models.load import load_local
from specviz.training.corpus import Corpus, Settings, write
from tests.models.tiny import write_llama, write_tokenizer


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products are quickest on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-target")
    write_tokenizer(folder)
    write_llama(folder, rows=100, layers=4)
    return folder


@pytest.fixture(scope="session")
def target(tiny_folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval().requires_grad_(False)


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> object:
    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture(scope="session")
def pair(tiny_folder: Path) -> Pair:
    return load_local(tiny_folder, device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def corpus_folder(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write(pair, Settings(tokens=6000, rows=16, seed=1), folder)
    return folder


@pytest.fixture(scope="session")
def corpus(corpus_folder: Path) -> Corpus:
    return Corpus.load(corpus_folder)
