"""No proposal at all: plain decoding, one token a pass."""

from specviz.engine.proposers.base import Committed, Proposal
from specviz.engine.tree import root_only
from specviz.trace import Pass


class Plain:
    """The empty tree in every step."""

    def begin(self, ids: list[int]) -> tuple[Pass, ...]:
        """Nothing to prepare."""
        return ()

    def propose(self, committed: Committed, depth: int) -> Proposal:
        """The root alone."""
        return Proposal(root_only(committed.ids[-1]))

    def keep(self, path: tuple[int, ...]) -> None:
        """Nothing to keep."""
