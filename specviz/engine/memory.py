"""Running out of memory, said in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from specviz.i18n import Fault

_CPU_SIGNS = ("can't allocate memory", "not enough memory", "Cannot allocate memory")  # torch raises a plain RuntimeError there


@contextmanager
def memory(device: str) -> Iterator[None]:
    """Turns what torch raises when the processor `device` has no memory left into a Fault, and gives back what torch keeps in reserve."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not any(sign in str(error) for sign in _CPU_SIGNS):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        raise Fault("error.out_of_memory", device=device) from error
