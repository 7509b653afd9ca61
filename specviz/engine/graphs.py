"""Whole passes recorded once and replayed: on a GPU launching the hundreds of small kernels of a pass takes longer than running them.

A recording has fixed shapes and addresses. So there is one for each bucket of tokens and each buffer, a pass is padded up to the next
bucket, and its tokens, positions and mask are copied into the tensors that the recording reads. Nothing in it waits for the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from specviz.engine.lm import Output
from specviz.engine.static import StaticCache

TOKENS = (1, 2, 4, 8, 16, 32, 64)  # tokens of a pass: a larger one, or a prefill, is not recorded
WINDOW = 128  # columns of a mask; a recording has that many, and one more that hides everything behind them

Body = Callable[[], Output]
Record = Callable[[Body], tuple[Callable[[], object], Output]]


@dataclass(frozen=True)
class Inputs:
    """What a recording reads. `slots` are the rows of the buffer that the pass writes; `first` is where the mask's columns begin.

    `window` is added to the scores of the columns from `first` on: 0 where a row sees a token, −inf elsewhere and behind the mask.
    """

    tokens: Int[Tensor, "n"]
    positions: Int[Tensor, "n"]
    slots: Int[Tensor, "n"]
    first: Int[Tensor, ""]
    window: Float[Tensor, "n w"]

    def bias(self, width: int, group: int) -> Float[Tensor, "r s"]:
        """The mask over the whole buffer, a row for each query head of a group: all of it is seen before `first`."""
        place = torch.arange(width, device=self.first.device) - self.first
        seen = torch.where(place < 0, 0, self.window[:, place.clamp(0, WINDOW)])
        return seen.repeat_interleave(group, dim=0)


def empty_inputs(count: int, device: torch.device, dtype: torch.dtype) -> Inputs:
    """The tensors that a recording of `count` tokens reads."""
    tokens, positions, slots = (torch.zeros(count, dtype=torch.long, device=device) for _ in range(3))
    first = torch.zeros((), dtype=torch.long, device=device)
    return Inputs(tokens, positions, slots, first, torch.zeros(count, WINDOW + 1, device=device, dtype=dtype))


def bucket(count: int) -> int | None:
    """The number of tokens that a pass of `count` is padded to; None where it is not recorded."""
    return next((size for size in TOKENS if size >= count), None)


def cuda_graph(body: Body) -> tuple[Callable[[], object], Output]:
    """Record `body` as a CUDA graph; returns what replays it, and the tensors that a replay fills."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # the first calls allocate and choose kernels
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = body()
    return graph.replay, output


@dataclass(frozen=True)
class _Recording:
    """A recorded pass. It holds on to its buffer: another one at the same address would be taken for it."""

    inputs: Inputs
    buffer: Tensor
    replay: Callable[[], object]
    output: Output


class Graphs:
    """The recordings of one model. `body` makes an Output from Inputs and a cache's buffer."""

    def __init__(self, body: Callable[[Inputs, Tensor], Output], device: torch.device, dtype: torch.dtype, record: Record = cuda_graph):
        self._body, self._device, self._dtype, self._record = body, device, dtype, record
        self._made: dict[tuple[int, int], _Recording] = {}

    def serves(self, mask: Bool[Tensor, "n w"]) -> bool:
        """Whether a pass with this mask can be replayed."""
        return bucket(mask.shape[0]) is not None and mask.shape[1] <= WINDOW

    def forward(self, cache: StaticCache, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Bool[Tensor, "n w"]) -> Output:
        """A pass by replay: see `LanguageModel.forward`. What it returns is its own, not the next replay's."""
        count = len(tokens)
        size = bucket(count) or count
        cache.reserve(size)
        key = size, cache.buffer.data_ptr()
        made = self._made.get(key)
        inputs = made.inputs if made else empty_inputs(size, self._device, self._dtype)
        self._fill(inputs, cache.length, tokens, positions, mask)  # recording runs the pass too, and must not write elsewhere
        if made is None:
            body = partial(self._body, inputs, cache.buffer)
            made = self._made[key] = _Recording(inputs, cache.buffer, *self._record(body))
        made.replay()
        cache.length += count
        return Output(made.output.logits[:count].clone(), made.output.hidden[:count].clone())

    def _fill(self, inputs: Inputs, start: int, tokens: Tensor, positions: Tensor, mask: Bool[Tensor, "n w"]) -> None:
        """Padding rows see only the first column, and write behind the real rows, where the next pass writes over them."""
        count, columns = mask.shape
        window = torch.full(inputs.window.shape, -torch.inf)
        window[count:, 0] = 0
        window[:count, :columns].masked_fill_(mask, 0)
        inputs.window.copy_(window, non_blocking=True)
        inputs.tokens[:count].copy_(tokens, non_blocking=True)
        inputs.positions[:count].copy_(positions, non_blocking=True)
        inputs.slots.copy_(torch.arange(start, start + len(inputs.slots)), non_blocking=True)
        inputs.first.fill_(start + count - columns)
