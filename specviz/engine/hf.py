"""Any transformers causal language model, as the loop wants it: the reference implementation.

The model itself is untouched. Tree attention is the model's own attention with an explicit four-dimensional mask and explicit positions:
siblings share a position, and no token sees another branch.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from specviz.engine.cache import PathCache
from specviz.engine.costs import ModelShape
from specviz.engine.lm import Output
from specviz.trace import ModelInfo

_PREFILL = 512  # tokens of a prompt in one pass, so that a long prompt needs no large buffers


class HFModel:
    """`LanguageModel` over a transformers model.

    `token_map` (sorted target ids) is given where the LM head scores only those tokens; the others get a logit of -inf, so q = 0.
    """

    engine = "hf"

    def __init__(self, model: PreTrainedModel, info: ModelInfo, token_map: Int[Tensor, "m"] | None = None, vocab_size: int | None = None):
        self.model = model.eval()
        self.info = info
        self.device, self.dtype = model.device, model.dtype
        self.token_map = None if token_map is None else token_map.long().to(self.device)
        self.vocab_size = vocab_size or model.config.vocab_size
        self.shape = model_shape(model.config, self.dtype, self.vocab_size if token_map is None else len(token_map))
        self.max_context = context_limit(model.config)

    def new_cache(self) -> PathCache:
        """An empty cache."""
        return PathCache(self.model.config)

    @torch.inference_mode()
    def forward(self, cache: PathCache, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Bool[Tensor, "n w"]) -> Output:
        """See `LanguageModel.forward`."""
        total = cache.length + len(tokens)
        seen = torch.ones(len(tokens), total, dtype=torch.bool)
        seen[:, total - mask.shape[1] :] = mask
        result = self.model(
            input_ids=tokens[None].to(self.device),
            position_ids=positions[None].to(self.device),
            attention_mask=seen[None, None].to(self.device),
            cache=cache.layers,
            use_cache=True,
            output_hidden_states=True,
        )
        return Output(widened(result.logits[0], self.token_map, self.vocab_size), result.hidden_states[-1][0])

    @torch.inference_mode()
    def prefill(self, cache: PathCache, tokens: Int[Tensor, "n"]) -> Float[Tensor, "d"]:
        """See `LanguageModel.prefill`."""
        for chunk in tokens.split(_PREFILL):
            positions = torch.arange(cache.length, cache.length + len(chunk), device=self.device)
            result = self.model.base_model(
                input_ids=chunk[None].to(self.device), position_ids=positions[None], cache=cache.layers, use_cache=True
            )
        return result.last_hidden_state[0, -1]


def widened(logits: Float[Tensor, "n m"], token_map: Int[Tensor, "m"] | None, vocab_size: int) -> Float[Tensor, "n V"]:
    """Logits over the whole vocabulary from those of the tokens in `token_map` (None: they are whole already); -inf for all others."""
    if token_map is None:
        return logits
    wide = logits.new_full((len(logits), vocab_size), -torch.inf)
    return wide.index_copy_(1, token_map, logits)


def model_shape(config: PretrainedConfig, dtype: torch.dtype, head_rows: int) -> ModelShape:
    """The dimensions of a Llama-like model, for its costs."""
    heads = config.num_attention_heads
    return ModelShape(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        ffn=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        head_rows=head_rows,
        bytes_per_value=dtype.itemsize,
    )


def context_limit(config: PretrainedConfig) -> int:
    """How many tokens the model can hold: its positions, or the window where it attends to a sliding one.

    An explicit mask would show every token to a sliding-window layer, so such a model is used only up to its window.
    """
    window = getattr(config, "sliding_window", None)
    slides = window and getattr(config, "use_sliding_window", True)
    return min(config.max_position_embeddings, window) if slides else config.max_position_embeddings
