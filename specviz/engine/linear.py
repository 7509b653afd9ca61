"""Products with fixed weights, and what follows them, in as few calls as the processor allows.

On a CPU most of a small pass is spent on these products, reading weights. oneDNN reads them about twice as fast in an order of its own
(`Packed`), and adds, multiplies or applies SiLU to the result before it leaves the registers.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_PACKED_DTYPES = (torch.float32, torch.bfloat16)


class Linear:
    """x·Wᵀ + b, by torch's own product."""

    def __init__(self, weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None = None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        """x·Wᵀ + b."""
        return F.linear(x, self.weight, self.bias)

    def silu(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        """SiLU(x·Wᵀ + b)."""
        return F.silu(self(x))

    def plus(self, x: Float[Tensor, "n i"], other: Float[Tensor, "n o"]) -> Float[Tensor, "n o"]:
        """x·Wᵀ + b + other."""
        return self(x).add_(other)

    def times(self, x: Float[Tensor, "n i"], other: Float[Tensor, "n o"]) -> Float[Tensor, "n o"]:
        """(x·Wᵀ + b) · other."""
        return self(x).mul_(other)


class Gated:
    """SiLU(x·Gᵀ) · (x·Uᵀ): the two halves of a gated MLP, in one product."""

    def __init__(self, both: Linear):
        self.both = both

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n f"]:
        """The activations that the down projection reads."""
        gate, up = self.both(x).chunk(2, dim=-1)
        return F.silu(gate).mul_(up)


class Packed(Linear):
    """The same, with the weight in oneDNN's order. `weight` itself is not kept."""

    def __init__(self, weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None = None):
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1), bias

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        """x·Wᵀ + b."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def silu(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        """SiLU(x·Wᵀ + b)."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "swish", [], "")

    def plus(self, x: Float[Tensor, "n i"], other: Float[Tensor, "n o"]) -> Float[Tensor, "n o"]:
        """x·Wᵀ + b + other."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self.weight, self.bias, "add")

    def times(self, x: Float[Tensor, "n i"], other: Float[Tensor, "n o"]) -> Float[Tensor, "n o"]:
        """(x·Wᵀ + b) · other."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self.weight, self.bias, "mul")


class PackedGated:
    """SiLU(x·Gᵀ) · (x·Uᵀ) in two products that leave nothing for other calls: faster here than one product of twice the size."""

    def __init__(self, gate: Packed, up: Linear):
        self.gate, self.up = gate, up

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n f"]:
        """The activations that the down projection reads."""
        return self.up.times(x, self.gate.silu(x))


def fused(*modules: nn.Linear) -> Linear:
    """One product that gives the results of several modules, side by side."""
    weights, biases = [module.weight for module in modules], [module.bias for module in modules]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    bias = None if biases[0] is None else torch.cat(biases)
    return product(weight, bias)


def product(weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None = None) -> Linear:
    """The fastest product with a weight that its processor and number format have."""
    return Packed(weight, bias) if packs(weight.device, weight.dtype) else Linear(weight, bias)


def gated(gate: nn.Linear, up: nn.Linear) -> Gated | PackedGated:
    """The gated half of an MLP."""
    first = fused(gate)
    return PackedGated(first, fused(up)) if isinstance(first, Packed) else Gated(fused(gate, up))


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN is there and computes in `dtype` natively: emulated, its half precision is slower than what it replaces."""
    if device.type != "cpu" or dtype not in _PACKED_DTYPES or not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
