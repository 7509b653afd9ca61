"""Roofs of other machines, as their manufacturers state them: assumed, never measured.

FLOP/s are those of the tensor cores on dense bf16 (fp16 where there is no bf16) accumulated in fp32, as language models compute. Some
datasheets print twice as much, with structured sparsity or accumulated in fp16: `note` says so.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Datasheet:
    """Roofs as a manufacturer states them: dense FLOP/s and memory bytes/s. `source` is a document, `note` a locale key or None."""

    name: str
    flops: float
    bandwidth: float
    source: str
    note: str | None = None

    @property
    def ridge(self) -> float:
        """FLOP/byte from which a pass is bound by arithmetic."""
        return self.flops / self.bandwidth


A100 = Datasheet("A100 80 GB", 312e12, 2.039e12, "NVIDIA A100 Tensor Core GPU datasheet (80 GB SXM)", "datasheet.beside_sparse")
H100 = Datasheet("H100 SXM", 989.4e12, 3.35e12, "NVIDIA H100 Tensor Core GPU datasheet (SXM)", "datasheet.only_sparse")
H200 = Datasheet("H200 SXM", 989.4e12, 4.8e12, "NVIDIA H200 Tensor Core GPU datasheet (SXM)", "datasheet.only_sparse")
L4 = Datasheet("L4", 121e12, 300e9, "NVIDIA L4 Tensor Core GPU datasheet", "datasheet.only_sparse")
T4 = Datasheet("T4", 65e12, 320e9, "NVIDIA T4 Tensor Core GPU datasheet", "datasheet.only_fp16")
RTX_4090 = Datasheet(
    "RTX 4090", 165.2e12, 1.008e12, "NVIDIA Ada GPU Architecture whitepaper (GeForce RTX 4090)", "datasheet.fp16_accumulate"
)

DATASHEETS = (A100, H100, H200, L4, T4, RTX_4090)
