"""Speculative sampling with a draft model (Leviathan et al. 2023; Chen et al. 2023): a chain, or a tree grown level by level.

The draft has a cache of its own. It holds the committed tokens that the draft has seen; every proposal first feeds those it has not
(after a fully accepted step the last candidate too, which was never fed), then one level of the tree in each pass.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.engine.lm import LanguageModel, Output, Pair
from specviz.engine.proposers.base import Committed, Proposal, clock, pass_of
from specviz.engine.sampling import draw_without_replacement, fit, warp
from specviz.engine.tree import Shape, TokenTree, full_shape, refuse_ranks, root_only, sparse_shape
from specviz.i18n import Fault
from specviz.trace import Pass


class Draft:
    """Proposes a tree of `shape`; a chain of K has one path of K ranks 0.

    Children are drawn from q without replacement where the rule is rejection at temperature > 0: then a draw is what the test needs.
    Under the other rules, and where the shape is `ranked` (it names ranks, not numbers of children), the tokens of those ranks in q are
    chosen, and each is tested as if its q were 1.
    """

    def __init__(self, draft: LanguageModel, shape: Shape, vocab_size: int, ranked: bool = False):
        self.draft, self.shape, self.vocab_size, self.ranked = draft, shape, vocab_size, ranked
        self.cache = draft.new_cache()
        self.start = 0  # cached committed tokens of the current proposal, the root included
        self.fed: list[int] = []  # candidates in the cache behind them, row by row

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
        levels = min(depth, len(self.shape[-1]))
        if levels < 1 or len(committed.ids) + levels > self.draft.max_context:
            self.fed = []
            return Proposal(root_only(committed.ids[-1]))
        chosen = self.ranked or committed.config.greedy or committed.config.rule != "rejection"
        growing = _Growing(committed, self.shape, self.vocab_size, chosen)
        passes: list[Pass] = []
        growing.add_level(self._catch_up(committed.ids, passes))
        for _ in range(1, levels):
            if growing.open:
                growing.add_level(self._feed_level(growing, passes))
        return Proposal(growing.tree(), tuple(passes))

    def keep(self, path: tuple[int, ...]) -> None:
        """Keep the accepted candidates that were fed; a leaf never was."""
        self.cache.keep(min(self.start, self.cache.length), [self.fed.index(node) for node in path if node in self.fed])

    def _catch_up(self, ids: list[int], passes: list[Pass]) -> Float[Tensor, "1 V"]:
        """Feed the committed tokens that the draft has not seen; returns the logits after the root."""
        self.fed = []
        unseen = torch.tensor(ids[self.cache.length :])
        causal = torch.ones(len(unseen), len(unseen), dtype=torch.bool).tril()
        positions = torch.arange(self.cache.length, self.cache.length + len(unseen))
        logits = self._forward(unseen, positions, causal, passes).logits[-1:]
        self.start = self.cache.length
        return logits

    def _feed_level(self, growing: "_Growing", passes: list[Pass]) -> Float[Tensor, "n V"]:
        """Feed what is open; a candidate sees the committed text, its ancestors and itself."""
        tree, level = growing.skeleton(), growing.open
        mask = tree.mask()[level][:, [*self.fed, *level]]  # the root is cached text: every candidate sees it
        positions = torch.full((len(level),), self.start - 1 + tree.depths[level[0]])
        logits = self._forward(torch.tensor([tree.tokens[node] for node in level]), positions, mask, passes).logits
        self.fed += level
        return logits

    def _forward(self, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Tensor, passes: list[Pass]) -> Output:
        context = self.cache.length
        before = clock(self.draft.device)
        output = self.draft.forward(self.cache, tokens, positions, mask)
        passes.append(pass_of("draft", self.draft.shape, len(tokens), context, clock(self.draft.device) - before))
        return output


def shape_of(config: DecodeConfig, pair: Pair) -> tuple[Shape, bool]:
    """The tree that a run asks for, and whether it names ranks; raises Fault where this pair's draft cannot fill it."""
    if config.choices:
        refuse_ranks(config.choices, pair.target.vocab_size)
        return config.choices, True
    if config.sparse_size:
        if pair.draft_accuracies is None:
            raise Fault("error.no_draft_ranks")
        return sparse_shape(pair.draft_accuracies, config.sparse_size), True
    return full_shape(config.widths or (1,) * config.k), False


class _Growing:
    """A tree while it grows, level by level. `open` are the newest nodes that the shape gives children."""

    def __init__(self, committed: Committed, shape: Shape, vocab_size: int, chosen: bool):
        self.committed, self.vocab_size, self.chosen = committed, vocab_size, chosen
        self.ranks: dict[tuple[int, ...], list[int]] = {}  # of the children, by path of ranks
        for path in shape:
            self.ranks.setdefault(path[:-1], []).append(path[-1])
        self.tokens, self.parents, self.q_row = [committed.ids[-1]], [-1], [-1]
        self.paths: list[tuple[int, ...]] = [()]  # of ranks, by node
        self.q: list[Tensor] = []  # one [n, V] a level
        self.open = [0]

    def add_level(self, logits: Float[Tensor, "n Vq"]) -> None:
        """Give every open node its children, from its row of `logits`."""
        tree, above = self.skeleton(), self.open
        q = warp(fit(logits, self.vocab_size), self.committed.config, self.committed.ids, [tree.text(node) for node in above])
        first = sum(map(len, self.q))
        self.q.append(q)
        self.open = []
        children_of = self._children(q, [self.ranks[self.paths[node]] for node in above])
        for row, (node, children) in enumerate(zip(above, children_of, strict=True)):
            self.q_row[node] = first + row
            for rank, token in children:
                self._add(node, rank, token)

    def _add(self, parent: int, rank: int, token: int) -> None:
        path = (*self.paths[parent], rank)
        self.open += [len(self.tokens)] if path in self.ranks else []
        self.tokens.append(token)
        self.parents.append(parent)
        self.paths.append(path)
        self.q_row.append(-1)

    def _children(self, q: Float[Tensor, "n V"], ranks: list[list[int]]) -> list[list[tuple[int, int]]]:
        """(rank, token) of the children of every row: drawn in this order, or those of these ranks that q does not exclude."""
        if not self.chosen:
            drawn = draw_without_replacement(q, max(map(len, ranks)), self.committed.generator)
            return [list(zip(wanted, tokens, strict=False)) for wanted, tokens in zip(ranks, drawn, strict=True)]
        best = q.topk(min(1 + max(map(max, ranks)), q.shape[1]), dim=-1)
        rows = zip(ranks, best.indices.tolist(), best.values.tolist(), strict=True)
        return [[(rank, tokens[rank]) for rank in wanted if rank < len(tokens) and q[rank] > 0] for wanted, tokens, q in rows]

    def skeleton(self) -> TokenTree:
        """The candidates so far, without their distributions."""
        return TokenTree(tuple(self.tokens), tuple(self.parents))

    def tree(self) -> TokenTree:
        """The finished tree."""
        return TokenTree(tuple(self.tokens), tuple(self.parents), torch.cat(self.q), tuple(self.q_row), drawn=not self.chosen)
