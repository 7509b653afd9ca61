"""A cache of fixed buffers: a pass writes behind what is there, and nothing is concatenated."""

import weakref
from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.engine.costs import ModelShape

BUCKET = 256  # rows by which buffers grow: attention over a whole buffer is faster on a CPU than over a part of it


class Buffers:
    """Keys and values of conversations, [layers, 2·kv_heads, capacity, head_dim]: the key heads, then the value heads.

    What a conversation leaves is used again by the next, whose rows hide what is in it: allocating takes time, and a CUDA graph is bound
    to the addresses that it was captured with. With `doubling`, capacities are powers of two times BUCKET, so that there are few graphs.
    """

    def __init__(self, shape: ModelShape, device: torch.device, dtype: torch.dtype, doubling: bool):
        self.shape, self.device, self.dtype, self.doubling = shape, device, dtype, doubling
        self._spare: dict[int, list[Tensor]] = defaultdict(list)

    @torch.inference_mode()
    def take(self, need: int) -> Float[Tensor, "l a s c"]:
        """A buffer of at least `need` rows."""
        blocks = -(-need // BUCKET)
        capacity = BUCKET * (1 << (blocks - 1).bit_length() if self.doubling else blocks)
        if self._spare[capacity]:
            return self._spare[capacity].pop()
        shape = self.shape.layers, 2 * self.shape.kv_heads, capacity, self.shape.head_dim
        return torch.zeros(shape, device=self.device, dtype=self.dtype)

    def give(self, buffer: Float[Tensor, "l a s c"]) -> None:
        """Hand a buffer back; one of each capacity is kept."""
        spare = self._spare[buffer.shape[2]]
        if not spare:
            spare.append(buffer)


class StaticCache:
    """One conversation. Rows of `buffer` from `length` on mean nothing.

    A row was rotated for its position when it was written, and a path's rows end up at just those positions, so `keep` only moves them.
    """

    def __init__(self, buffers: Buffers):
        self.length = 0
        self._buffers = buffers
        self._end: weakref.finalize | None = None
        self._hold(buffers.take(1))

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return self.buffer.shape[2]

    def reserve(self, count: int) -> None:
        """Make room for `count` more rows."""
        if self.length + count > self.capacity:
            old = self.buffer
            self._hold(self._buffers.take(self.length + count))
            self.buffer[:, :, : self.length] = old[:, :, : self.length]
            self._buffers.give(old)

    @torch.inference_mode()
    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Leave tokens 0 … start−1 and, behind them, start + rows[0], start + rows[1], …"""
        if list(rows) != list(range(len(rows))):  # else a chain, or the first branch: only the end has to go
            index = torch.tensor([start + row for row in rows], device=self.buffer.device)
            self.buffer[:, :, start : start + len(rows)] = self.buffer[:, :, index]
        self.length = start + len(rows)

    def _hold(self, buffer: Float[Tensor, "l a s c"]) -> None:
        if self._end is not None:
            self._end.detach()
        self.buffer = buffer
        self._end = weakref.finalize(self, self._buffers.give, buffer)  # when the conversation is over
