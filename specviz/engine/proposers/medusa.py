"""Medusa (Cai et al. 2024): heads on the target's last hidden state, all candidates in one small product.

Head k looks k+1 tokens past the hidden state, and its answer does not depend on the candidates above: every node of a depth has the same
row of q. Candidates are the heads' most probable tokens (chosen, not drawn), arranged in a tree.
"""

from jaxtyping import Float
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.engine.lm import Heads
from specviz.engine.proposers.base import Committed, Proposal, clock, heads_pass
from specviz.engine.sampling import fit, warp
from specviz.engine.tree import Shape, TokenTree, full_shape, parents_of, refuse_ranks, root_only, sparse_shape
from specviz.i18n import Fault
from specviz.trace import Pass

DEFAULT_SIZE = 16  # candidates of the calibrated tree where nobody measured the machine (see timings.sized)
UNCALIBRATED = (3, 2, 1)  # widths for heads whose accuracies nobody measured


class Medusa:
    """Proposes `shape`, filled with the heads' top tokens."""

    def __init__(self, heads: Heads, shape: Shape, vocab_size: int):
        self.heads, self.shape, self.vocab_size = heads, shape, vocab_size

    def begin(self, ids: list[int]) -> tuple[Pass, ...]:
        """Nothing to prepare."""
        return ()

    def propose(self, committed: Committed, depth: int) -> Proposal:
        """See `Proposer`. Empty before the target has seen a token."""
        shape = tuple(path for path in self.shape if len(path) <= depth)
        if not shape or committed.hidden is None:
            return Proposal(root_only(committed.ids[-1]))
        before = clock(committed.hidden.device)
        q = self._distributions(committed.hidden, committed)
        most = 1 + max(rank for path in shape for rank in path)
        ids = q.topk(min(most, q.shape[-1]), dim=-1).indices.tolist()
        seconds = clock(committed.hidden.device) - before
        tokens = (committed.ids[-1], *(ids[len(path) - 1][path[-1]] for path in shape))
        deepest = len(shape[-1])
        inner = {path[:-1] for path in shape}
        q_row = tuple(len(path) if path in inner else -1 for path in ((), *shape))
        tree = TokenTree(tokens, parents_of(shape), q[:deepest], q_row, drawn=False)
        return Proposal(tree, (heads_pass(self.heads, seconds),))

    def keep(self, path: tuple[int, ...]) -> None:
        """Heads have no state."""

    def _distributions(self, hidden: Float[Tensor, "d"], committed: Committed) -> Float[Tensor, "k V"]:
        logits = fit(self.heads.logits(hidden), self.vocab_size)
        return warp(logits, committed.config, committed.ids, [()] * len(logits))


def shape_of(config: DecodeConfig, heads: Heads, vocab_size: int) -> Shape:
    """The tree that a run asks for; raises Fault where these heads cannot fill it."""
    named = config.choices or (full_shape(config.widths) if config.widths else None)
    if named:
        if len(named[-1]) > heads.count:
            raise Fault("error.tree_deep", value=str(config.tree)[:40], levels=len(named[-1]), heads=heads.count)
        refuse_ranks(named, vocab_size)
        return named
    if heads.accuracies is None:
        if config.sparse_size:
            raise Fault("error.no_ranks")
        return full_shape(UNCALIBRATED[: heads.count])
    return sparse_shape(heads.accuracies, config.sparse_size or DEFAULT_SIZE)
