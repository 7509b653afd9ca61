"""Roofs of other machines, as their manufacturers state them: assumed, never measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Datasheet:
    """Roofs as a manufacturer states them: dense FLOP/s and memory bytes/s."""

    name: str
    flops: float
    bandwidth: float
    source: str

    @property
    def ridge(self) -> float:
        """FLOP/byte from which a pass is bound by arithmetic."""
        return self.flops / self.bandwidth


A100 = Datasheet("A100", 312e12, 2.0e12, "NVIDIA A100 datasheet: 312 TFLOP/s dense bf16, 80 GB with 2.0 TB/s (rounded)")
