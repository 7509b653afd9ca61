"""The Llama family without overhead: fused weights, a static cache, one attention call a layer.

Serves Llama (SmolLM too), Qwen2, Qwen3 and Mistral, targets, drafts and heads alike; any other architecture is run by engine/hf.py, and
the two agree within rounding. All that a pass does is in `FastModel._layers` and `_Layer`: there is no module system underneath.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from specviz.engine.costs import ModelShape
from specviz.engine.graphs import Graphs, Inputs, Record, cuda_graph
from specviz.engine.hf import context_limit, model_shape, widened
from specviz.engine.linear import fused, gated
from specviz.engine.lm import Output
from specviz.engine.static import Buffers, StaticCache
from specviz.i18n import Fault
from specviz.trace import ModelInfo

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
ROPES = ("default", "linear", "llama3", "yarn")  # those whose table does not depend on the length of the text
_PREFILL = 256  # tokens of a prompt in one pass, so that a long prompt needs no large buffers
# Where torch's fused attention beats two batched products on a CPU: short texts, few rows (see docs/benchmarks.md).
_FUSED_ROWS, _FUSED_SCORES = 320, 6000


def suits(config: PretrainedConfig) -> bool:
    """Whether this engine can run a model of `config`."""
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    slides = context_limit(config) < config.max_position_embeddings or "sliding_attention" in (getattr(config, "layer_types", None) or ())
    return config.model_type in FAMILIES and config.hidden_act == "silu" and rope in ROPES and not slides


class FastModel:
    """`LanguageModel` over the weights of a transformers model, which it takes apart: `model` cannot be used afterwards.

    `token_map` and `vocab_size` as in HFModel. On a CUDA device passes are replayed from graphs; `record` says how they are recorded
    (tests record on a CPU). Raises Fault where `suits` says no.
    """

    engine = "fast"

    def __init__(
        self,
        model: PreTrainedModel,
        info: ModelInfo,
        token_map: Int[Tensor, "m"] | None = None,
        vocab_size: int | None = None,
        record: Record | None = None,
    ):
        if not suits(model.config):
            raise Fault("error.engine_cannot", engine=self.engine, architecture=model.config.model_type)
        self.info, self.device, self.dtype = info, model.device, model.dtype
        self.token_map = None if token_map is None else token_map.long().to(self.device)
        self.vocab_size = vocab_size or model.config.vocab_size
        self.shape = model_shape(model.config, self.dtype, self.vocab_size if token_map is None else len(token_map))
        self.max_context = context_limit(model.config)
        self._take(model)
        record = record or (cuda_graph if self.device.type == "cuda" else None)
        self.graphs = None if record is None else Graphs(self._recorded, self.device, self.dtype, record)
        self.buffers = Buffers(self.shape, self.device, self.dtype, doubling=record is not None)

    @torch.inference_mode()
    def _take(self, model: PreTrainedModel) -> None:
        core, eps = model.model, model.config.rms_norm_eps
        self.embedding, self.norm = core.embed_tokens.weight, Norm(core.norm.weight, eps)
        self.rotary = _Rotary(core.rotary_emb, self.shape, self.max_context, self.device)
        self.layers = []
        for i in range(len(core.layers)):
            self.layers.append(_Layer(core.layers[i], self.shape, eps))
            core.layers[i] = nn.Identity()  # its weights were copied: there is never more than one layer in memory twice
        self.head = fused(model.lm_head)

    def new_cache(self) -> StaticCache:
        """An empty cache."""
        return StaticCache(self.buffers)

    @torch.inference_mode()
    def forward(self, cache: StaticCache, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Bool[Tensor, "n w"]) -> Output:
        """See `LanguageModel.forward`."""
        if self.graphs is not None and self.graphs.serves(mask):
            return self.graphs.forward(cache, tokens, positions, mask)
        return self._output(self._layers(tokens, positions, [self._part(cache, mask)]))

    @torch.inference_mode()
    def prefill(self, cache: StaticCache, tokens: Int[Tensor, "n"]) -> Float[Tensor, "d"]:
        """See `LanguageModel.prefill`."""
        for chunk in tokens.split(_PREFILL):
            positions = torch.arange(cache.length, cache.length + len(chunk))
            causal = torch.ones(len(chunk), len(chunk), dtype=torch.bool).tril()
            x = self._layers(chunk, positions, [self._part(cache, causal)])
        return self.norm(x[-1:])[0]

    @torch.inference_mode()
    def forward_batch(self, caches: Sequence[StaticCache], tokens: Int[Tensor, "b"]) -> Output:
        """The next token of several conversations in one pass: the weights are read once for all of them."""
        alone = torch.ones(1, 1, dtype=torch.bool)
        positions = torch.tensor([cache.length for cache in caches])
        return self._output(self._layers(tokens, positions, [self._part(cache, alone) for cache in caches]))

    def _output(self, x: Float[Tensor, "n d"]) -> Output:
        hidden = self.norm(x)
        return Output(widened(self.head(hidden), self.token_map, self.vocab_size), hidden)

    def _recorded(self, inputs: Inputs, buffer: Float[Tensor, "l a s c"]) -> Output:
        """The pass that a graph holds: as `forward`, but where it writes and what it sees stands in tensors."""
        bias = inputs.bias(buffer.shape[2], self.shape.heads // self.shape.kv_heads)
        part = _Part(buffer, inputs.slots, buffer.shape[2], bias, fused=True)
        return self._output(self._run(inputs.tokens, inputs.positions, [part]))

    def _layers(
        self, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], parts: "list[tuple[StaticCache, _Part]]"
    ) -> Float[Tensor, "n d"]:
        """The residual stream after all layers; every part's cache has then grown by its rows."""
        x = self._run(tokens.to(self.device), positions.to(self.device), [part for _, part in parts])
        for cache, part in parts:
            cache.length += part.rows
        return x

    def _run(self, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], parts: "Sequence[Part]") -> Float[Tensor, "n d"]:
        x = F.embedding(tokens, self.embedding)
        cos, sin = self.rotary(positions, self.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, i, parts)
        return x

    def _part(self, cache: StaticCache, mask: Bool[Tensor, "n w"]) -> "tuple[StaticCache, _Part]":
        """Room in the cache for the rows of `mask`, and what they may see."""
        rows, window = mask.shape
        cache.reserve(rows)
        stop, group = cache.length + rows, self.shape.heads // self.shape.kv_heads
        fused = self.device.type != "cpu" or (stop <= _FUSED_ROWS and rows * group * stop <= _FUSED_SCORES)
        width = stop if fused else cache.capacity
        bias = None
        if not (fused and rows == 1):
            seen = torch.zeros(rows, width)
            seen[:, stop:] = -torch.inf
            seen[:, stop - window : stop].masked_fill_(~mask, -torch.inf)
            bias = seen.repeat_interleave(group, dim=0).to(self.device, self.dtype)
        return cache, _Part(cache.buffer, range(cache.length, stop), width, bias, fused)


@runtime_checkable
class Part(Protocol):
    """Rows of a pass, and the keys and values that they attend to."""

    def attend(self, layer: int, q: Float[Tensor, "n h c"], kv: Float[Tensor, "n g c"]) -> Float[Tensor, "n hc"]:
        """Write the rows' keys and values, then attend with q (scaled already)."""
        ...


class _Part:
    """The rows of one conversation in a pass: where in its buffer they go, the first `width` rows that they look at, and their mask.

    `bias` is added to the scores, -inf where nothing is to be seen; a token of a grouped-query model has a row for each query head of a
    group. None: everything is seen. The views of all layers are made at once: in a pass of one token their making would show.
    """

    def __init__(self, buffer: Float[Tensor, "l a s c"], slots: range | Int[Tensor, "n"], width: int, bias: Tensor | None, fused: bool):
        self.slots, self.bias, self.fused = slots, bias, fused
        self.rows, self.groups = len(slots), buffer.shape[1] // 2
        self.written = (buffer[:, :, slots.start : slots.stop] if isinstance(slots, range) else buffer).unbind()
        keys, values = buffer[:, :, :width].split(self.groups, dim=1)
        self.keys, self.values = keys[:, None].unbind(), values[:, None].unbind()

    def write(self, layer: int, kv: Float[Tensor, "n a c"]) -> None:
        """Put the rows' keys and values into the buffer."""
        if isinstance(self.slots, range):
            self.written[layer].copy_(kv.transpose(0, 1))
        else:
            self.written[layer].index_copy_(1, self.slots, kv.transpose(0, 1))

    def attend(self, layer: int, q: Float[Tensor, "n h c"], kv: Float[Tensor, "n g c"]) -> Float[Tensor, "n hc"]:
        """Write keys and values, then attend with q (scaled already). A group's query heads share its keys as more rows."""
        self.write(layer, kv)
        grouped = q.view(self.rows, self.groups, -1, q.shape[2]).transpose(0, 1).reshape(1, self.groups, -1, q.shape[2])
        keys, values = self.keys[layer], self.values[layer]
        if self.fused:
            out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=self.bias, scale=1.0)
        else:
            scores = torch.bmm(grouped[0], keys[0].transpose(1, 2)).add_(self.bias)
            out = torch.bmm(scores.softmax(dim=-1), values[0])
        return out.view(self.groups, self.rows, -1).transpose(0, 1).reshape(self.rows, -1)


class _Layer:
    """One decoder layer: x + attention(norm(x)), then + MLP(norm(x))."""

    def __init__(self, layer: nn.Module, shape: ModelShape, eps: float):
        attention, mlp = layer.self_attn, layer.mlp
        self.heads, self.kv_heads, self.size = shape.heads, shape.kv_heads, shape.head_dim
        self.norm, self.mlp_norm = Norm(layer.input_layernorm.weight, eps), Norm(layer.post_attention_layernorm.weight, eps)
        self.qkv = fused(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out, self.down = fused(attention.o_proj), fused(mlp.down_proj)
        self.gated = gated(mlp.gate_proj, mlp.up_proj)
        named = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]  # Qwen3 normalises every head
        self.head_norms = [Norm(norm.weight, eps) for norm in named if norm is not None]

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor, index: int, parts: Sequence[Part]) -> Tensor:
        """The residual stream after this layer; `index` is its place in the cache."""
        qkv = self.qkv(self.norm(x)).view(len(x), -1, self.size)
        if self.head_norms:
            qkv = self._normalised(qkv)
        qkv = torch.addcmul(qkv * cos, qkv.roll(self.size // 2, dims=-1), sin)
        q, kv = qkv.split([self.heads, 2 * self.kv_heads], dim=1)
        if len(parts) == 1:
            mixed = parts[0].attend(index, q, kv)
        else:
            mixed = torch.cat([part.attend(index, q[i : i + 1], kv[i : i + 1]) for i, part in enumerate(parts)])
        x = self.out.plus(mixed, x)
        return self.down.plus(self.gated(self.mlp_norm(x)), x)

    def _normalised(self, qkv: Float[Tensor, "n a c"]) -> Float[Tensor, "n a c"]:
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return torch.cat([self.head_norms[0](q), self.head_norms[1](k), v], dim=1)


class Norm:
    """RMSNorm (Zhang and Sennrich 2019): x / √(mean(x²) + ε) · w.

    On a CPU torch composes it of many small calls; its LayerNorm is a single one, and of (x, −x), whose mean is 0 and whose variance is
    mean(x²), the first half is the RMSNorm of x.
    """

    def __init__(self, weight: Float[Tensor, "d"], eps: float):
        self.size, self.eps = len(weight), eps
        self.signs = torch.tensor([[1], [-1]], dtype=weight.dtype) if weight.device.type == "cpu" else None
        self.weight = weight if self.signs is None else torch.cat([weight, weight])

    def __call__(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """Every row normalised."""
        if self.signs is None:
            return F.rms_norm(x, (self.size,), self.weight, self.eps)
        mirrored = (x[..., None, :] * self.signs).flatten(-2)
        return F.layer_norm(mirrored, (2 * self.size,), self.weight, None, self.eps)[..., : self.size]


class _Rotary:
    """Rotary tables (Su et al. 2021) for queries, keys and values in one: values are not turned, and queries get the scores' scale too.

    A head's halves (a, b) turn into (a·cos − b·sin, b·cos + a·sin) = (a, b)·cos + (b, a)·(−sin, sin): the signs are in the table, and
    swapping the halves is one call.
    """

    def __init__(self, rotary: nn.Module, shape: ModelShape, length: int, device: torch.device):
        cos, sin = rotary(torch.zeros(1, device=device), torch.arange(length, device=device)[None])
        sin[..., : shape.head_dim // 2] *= -1
        self.cos, self.sin = cos[0], sin[0]
        kinds = torch.tensor([shape.head_dim**-0.5, 1.0, 0.0], device=device)  # of query, key and value heads
        self.turned = kinds.repeat_interleave(torch.tensor([shape.heads, shape.kv_heads, shape.kv_heads], device=device))[:, None]
        self.still = (self.turned == 0).float()

    def __call__(self, positions: Int[Tensor, "n"], dtype: torch.dtype) -> tuple[Float[Tensor, "n a c"], Float[Tensor, "n a c"]]:
        """cos and sin for every head of every row."""
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        return torch.addcmul(self.still, cos, self.turned).to(dtype), (sin * self.turned).to(dtype)
