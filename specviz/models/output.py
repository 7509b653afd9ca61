"""The LM head of a model that an engine may have taken apart: what trainers and loaders of heads ask of a target."""

from jaxtyping import Float
from torch import Tensor, nn

from specviz.engine.fast import FastModel
from specviz.engine.hf import HFModel
from specviz.engine.lm import LanguageModel
from specviz.i18n import Fault


class LmHead(nn.Module):
    """A target of which nothing but its output embeddings is asked."""

    def __init__(self, weight: Float[Tensor, "V d"]):
        super().__init__()
        self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
        self.head.weight = nn.Parameter(weight, requires_grad=False)

    def get_output_embeddings(self) -> nn.Linear:
        """As transformers models have it."""
        return self.head


def lm_head(model: LanguageModel) -> LmHead:
    """The LM head of `model`, on its device and in its dtype; on a CPU a copy. Raises Fault for an engine that has none to show."""
    if isinstance(model, HFModel):
        return LmHead(model.model.get_output_embeddings().weight.detach())
    if not isinstance(model, FastModel):
        raise Fault("training.no_lm_head", engine=model.engine)
    weight = model.head.weight
    return LmHead(weight.to_dense() if weight.is_mkldnn else weight.detach())
