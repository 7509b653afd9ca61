"""Entropy and distance of distributions, row by row, in nats."""

import torch
from jaxtyping import Float
from torch import Tensor


def entropy(p: Float[Tensor, "n V"]) -> Float[Tensor, "n"]:
    """H(p) = −Σ p ln p, with 0 ln 0 = 0."""
    return -_logs(p).mul_(p).sum(dim=-1).clamp(max=0)


def total_variation(p: Float[Tensor, "n V"], q: Float[Tensor, "n V"]) -> Float[Tensor, "n"]:
    """TV(p, q) = ½ Σ |p − q|; 1 − TV is the chance that speculative sampling accepts a token drawn from q."""
    return ((p - q).abs().sum(dim=-1) / 2).clamp(max=1)


def kl(p: Float[Tensor, "n V"], q: Float[Tensor, "n V"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """KL(p‖q) = Σ p ln(p/q), and the mass of p where q is 0.

    There the divergence is infinite (a proposer with a reduced vocabulary, or top-p on q). It is then taken over the other tokens,
    with p renormalised on them, and the missing mass is returned beside it so that nobody mistakes the one for the other.
    """
    covered = q > 0
    inside = p * covered
    mass = inside.sum(dim=-1)
    share = inside / mass.clamp(min=torch.finfo(p.dtype).tiny)[:, None]
    divergence = share.mul(_logs(share) - _logs(q)).sum(dim=-1)  # where q is 0, so is the share
    return divergence.clamp(min=0), (1 - mass).clamp(0, 1)


def _logs(p: Float[Tensor, "n V"]) -> Float[Tensor, "n V"]:
    """ln p, finite at 0: times 0 it is the 0 that is wanted (torch.xlogy says the same, eight times slower)."""
    return p.clamp(min=torch.finfo(p.dtype).tiny).log_()
