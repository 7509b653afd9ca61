"""The LM head of a target, whatever runs it."""

import pytest
import torch
from torch.nn import functional as F

from specviz.i18n import Fault
from specviz.models.load import load_local
from specviz.models.output import lm_head
from tests.fakes import TableLM
from tests.models.tiny import write_llama, write_tokenizer


@pytest.mark.parametrize("tied", [True, False])
def test_it_is_the_same_from_both_engines(tmp_path, tied):
    write_tokenizer(tmp_path)
    write_llama(tmp_path, tied=tied)
    fast, reference = (load_local(tmp_path, device="cpu", dtype="float32", engine=engine).target for engine in ("fast", "hf"))
    weight = lm_head(fast).get_output_embeddings().weight
    assert torch.equal(weight, reference.model.lm_head.weight)
    assert torch.equal(weight, lm_head(reference).get_output_embeddings().weight)
    state = torch.randn(3, weight.shape[1], requires_grad=True)
    F.linear(state, weight).sum().backward()  # heads are trained through it
    assert not weight.requires_grad and state.grad is not None


def test_an_engine_without_one_is_one_sentence():
    with pytest.raises(Fault, match="LM head"):
        lm_head(TableLM(0))
