"""Toy models have tiny tensors: a second thread would only make them wait for each other."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """One thread, but for tests of the embedded model."""
    threads = torch.get_num_threads()
    if "embedded_pair" not in request.fixturenames:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
