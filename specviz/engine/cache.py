"""The reference cache: transformers' own, with the one operation that tree decoding needs beside it."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PretrainedConfig

from specviz.i18n import Fault


class PathCache:
    """Keys and values of one conversation; `keep` gathers the accepted path and drops the other branches.

    A row was rotated for its position when it was written, and a path's rows end up at just those positions, so nothing has to be
    rotated again.
    """

    def __init__(self, config: PretrainedConfig):
        kinds = DynamicCache(config=config).layers
        if any(not (layer.is_croppable or layer.is_sliding) for layer in kinds):
            raise Fault("error.cache_kind")
        # Without the config no layer slides: a window that is full could not be rolled back (the context stops at the window instead).
        self.layers = DynamicCache()

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.layers.get_seq_length()

    @torch.inference_mode()
    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Leave tokens 0 … start−1 and, behind them, start + rows[0], start + rows[1], …"""
        stay = start + len(rows)
        in_place = list(rows) == list(range(len(rows)))  # a chain, or the first branch: only the end has to go
        for layer in self.layers.layers:
            if not in_place:
                index = torch.tensor([start + row for row in rows], device=layer.keys.device)
                layer.keys[:, :, start:stay] = layer.keys[:, :, index]
                layer.values[:, :, start:stay] = layer.values[:, :, index]
            layer.keys = layer.keys[:, :, :stay]
            layer.values = layer.values[:, :, :stay]
