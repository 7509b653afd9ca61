"""No memory left in the middle of a run: one sentence, what was decoded stays, and the next run works."""

import pytest
import torch

from specviz.config import DecodeConfig
from specviz.engine.lm import Output
from specviz.engine.loop import decode
from specviz.engine.memory import memory
from specviz.i18n import Fault
from tests.fakes import TableLM, table_pair

CONFIG = DecodeConfig(method="plain", temperature=1.0, rule="match", max_new_tokens=12, chat=False)


def test_a_run_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, room = table_pair(), [5]
    forward = TableLM.forward

    def tight(self: TableLM, *inputs: object) -> Output:
        room[0] -= 1
        if room[0] < 0:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(self, *inputs)

    with monkeypatch.context() as patched:
        patched.setattr(TableLM, "forward", tight)
        told = []
        with pytest.raises(Fault, match="a table has no memory left"):
            told.extend(decode(pair, "abc", CONFIG))
    assert len(told) == 5, "the steps before it were told"
    assert len(list(decode(pair, "abc", CONFIG))) == 12, "and the next run is whole"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes")])
def test_what_counts_as_no_memory(error: Exception) -> None:
    with pytest.raises(Fault, match="no memory left"), memory("this CPU"):
        raise error


def test_every_other_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), memory("this CPU"):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
