"""Speculative sampling with a draft model (Leviathan et al. 2023; Chen et al. 2023): a chain, or a tree grown level by level.

The draft has a cache of its own. It holds the committed tokens that the draft has seen; every proposal first feeds those it has not
(after a fully accepted step the last candidate too, which was never fed), then one level of the tree in each pass.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.engine.lm import LanguageModel, Output
from specviz.engine.proposers.base import Committed, Proposal, clock, pass_of
from specviz.engine.sampling import draw_without_replacement, fit, warp
from specviz.engine.tree import TokenTree, root_only
from specviz.trace import Pass


class Draft:
    """Proposes a tree with `widths[d]` children a node at depth d; a chain of K has widths (1,) * K.

    Children are drawn from q without replacement where the rule is rejection at temperature > 0: then a draw is what the test needs.
    Under the other rules the most probable ones are chosen.
    """

    def __init__(self, draft: LanguageModel, widths: Sequence[int], vocab_size: int):
        self.draft, self.widths, self.vocab_size = draft, tuple(widths), vocab_size
        self.cache = draft.new_cache()
        self.start = 0  # cached committed tokens of the current proposal, the root included
        self.fed = 0  # candidates in the cache behind them

    def begin(self, ids: list[int]) -> tuple[Pass, ...]:
        """Read the prompt, but for its last token: that is the root of the first proposal."""
        count = min(len(ids) - 1, self.draft.max_context - 1)
        if count < 1:
            return ()
        before = clock(self.draft.device)
        self.draft.prefill(self.cache, torch.tensor(ids[:count]))
        return (pass_of("prefill", self.draft.shape, count, 0, clock(self.draft.device) - before, scored=0),)

    def propose(self, committed: Committed, depth: int) -> Proposal:
        """See `Proposer`. Empty where the text has outgrown the draft's context."""
        widths = self.widths[:depth]
        if not widths or len(committed.ids) + len(widths) > self.draft.max_context:
            self.fed = 0
            return Proposal(root_only(committed.ids[-1]))
        growing = _Growing(committed, self.vocab_size, chosen=committed.config.greedy or committed.config.rule != "rejection")
        passes: list[Pass] = []
        logits = self._catch_up(committed.ids, passes)
        growing.add_level(logits, widths[0])
        for width in widths[1:]:
            growing.add_level(self._feed_level(growing, passes), width)
        return Proposal(growing.tree(), tuple(passes))

    def keep(self, path: tuple[int, ...]) -> None:
        """Keep the accepted candidates that were fed; the last level never was."""
        self.cache.keep(min(self.start, self.cache.length), [node - 1 for node in path if node <= self.fed])

    def _catch_up(self, ids: list[int], passes: list[Pass]) -> Float[Tensor, "1 V"]:
        """Feed the committed tokens that the draft has not seen; returns the logits after the root."""
        self.fed = 0
        unseen = torch.tensor(ids[self.cache.length :])
        causal = torch.ones(len(unseen), len(unseen), dtype=torch.bool).tril()
        positions = torch.arange(self.cache.length, self.cache.length + len(unseen))
        logits = self._forward(unseen, positions, causal, passes).logits[-1:]
        self.start = self.cache.length
        return logits

    def _feed_level(self, growing: "_Growing", passes: list[Pass]) -> Float[Tensor, "n V"]:
        """Feed the newest level; a candidate sees the committed text, its ancestors and itself."""
        tree, level = growing.skeleton(), growing.level
        mask = tree.mask()[level, 1:]  # the root is cached text: every candidate sees it
        positions = torch.full((len(level),), self.start - 1 + tree.depths[level[0]])
        logits = self._forward(torch.tensor([tree.tokens[node] for node in level]), positions, mask, passes).logits
        self.fed = level[-1]
        return logits

    def _forward(self, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Tensor, passes: list[Pass]) -> Output:
        context = self.cache.length
        before = clock(self.draft.device)
        output = self.draft.forward(self.cache, tokens, positions, mask)
        passes.append(pass_of("draft", self.draft.shape, len(tokens), context, clock(self.draft.device) - before))
        return output


class _Growing:
    """A tree while it grows, level by level."""

    def __init__(self, committed: Committed, vocab_size: int, chosen: bool):
        self.committed, self.vocab_size, self.chosen = committed, vocab_size, chosen
        self.tokens, self.parents, self.q_row = [committed.ids[-1]], [-1], [-1]
        self.q: list[Tensor] = []  # one [n, V] a level
        self.level = [0]  # nodes of the newest level

    def add_level(self, logits: Float[Tensor, "n Vq"], width: int) -> None:
        """Give every node of the newest level up to `width` children from its row of `logits`."""
        tree, above = self.skeleton(), self.level
        q = warp(fit(logits, self.vocab_size), self.committed.config, self.committed.ids, [tree.text(node) for node in above])
        first = sum(map(len, self.q))
        self.q.append(q)
        self.level = []
        for row, (node, children) in enumerate(zip(above, self._children(q, width), strict=True)):
            self.q_row[node] = first + row
            self.level += range(len(self.tokens), len(self.tokens) + len(children))
            self.tokens += children
            self.parents += [node] * len(children)
            self.q_row += [-1] * len(children)

    def _children(self, q: Float[Tensor, "n V"], width: int) -> list[list[int]]:
        if not self.chosen:
            return draw_without_replacement(q, width, self.committed.generator)
        best = q.topk(min(width, q.shape[1]), dim=-1)
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[token for token, chance in zip(*row, strict=True) if chance > 0] for row in rows]

    def skeleton(self) -> TokenTree:
        """The candidates so far, without their distributions."""
        return TokenTree(tuple(self.tokens), tuple(self.parents))

    def tree(self) -> TokenTree:
        """The finished tree."""
        return TokenTree(tuple(self.tokens), tuple(self.parents), torch.cat(self.q), tuple(self.q_row), drawn=not self.chosen)
