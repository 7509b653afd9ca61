"""One step of a run, as plain data: the tree, what target and proposer said after every node, the verdicts, the cost.

Conventions: p is the target's distribution and q the proposer's, both after warping (temperature, top-k, top-p, penalties). At
temperature 0 only the argmax decides; p and q are then recorded as they are at temperature 1, because a one-hot row shows nothing.
Natural logarithms throughout: entropies and divergences are in nats. Times are in seconds.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Verdict = Literal["root", "accepted", "refused", "untested"]
Kind = Literal["accepted", "recovered", "bonus", "plain"]
PassKind = Literal["draft", "verify", "plain", "prefill"]

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Probability = Annotated[float, Field(ge=0, le=1.0001)]  # sums of rounded floats may exceed 1 by a hair
NotNegative = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(max_length=4096)]


class Record(BaseModel):
    """Frozen, nothing unknown in it, every number finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Node(Record):
    """A candidate of the tree. Node 0 is the root: the last committed token, never judged.

    `p` and `q` are the target's and the proposer's probability of this token after its parent's path. `p_test`, `q_test` and `u` are
    the numbers of its rejection test: accept when u·q_test < p_test. They differ from p and q where an earlier sibling was refused (p is
    then the residual) and where the candidate was not drawn but chosen (q_test is 1). They are recorded for every candidate at
    temperature > 0, tested or not, so that the step can be judged again under another rule.
    """

    token_id: TokenId
    text: Text
    parent: Annotated[int, Field(ge=-1)]
    rank: Annotated[int, Field(ge=0)] = 0
    q: Probability | None = None
    p: Probability | None = None
    q_test: Probability | None = None
    p_test: Probability | None = None
    u: Probability | None = None
    verdict: Verdict = "untested"


class Row(Record):
    """What target and proposer said about the token after one node: row i of a step belongs to node i.

    `ids` are the top candidates of p and of q together, most probable under p first, with `p`, `q` and (after all children are refused)
    `residual` beside them; `p_tail` and `q_tail` are the mass of all other tokens. `q`, `kl` and `tv` are None where the proposer said
    nothing (a leaf). `argmax` is the target's most probable token. `draw` is the token that uniform `u` picks from p, `residual_draw`
    the one that it picks from the residual. `threshold` is min(ε, δ·e^(−H)).
    """

    ids: tuple[TokenId, ...]
    p: tuple[Probability, ...]
    q: tuple[Probability, ...] | None = None
    residual: tuple[Probability, ...] | None = None
    p_tail: Probability
    q_tail: Probability | None = None
    entropy: NotNegative
    threshold: NotNegative
    kl: NotNegative | None = None
    kl_missing: Probability = 0.0  # mass of p on tokens that q excludes: KL(p‖q) is infinite there, so it is taken over the others
    tv: Probability | None = None
    argmax: TokenId
    u: Probability | None = None
    draw: TokenId | None = None
    residual_draw: TokenId | None = None

    @model_validator(mode="after")
    def _aligned(self) -> "Row":
        columns = [column for column in (self.p, self.q, self.residual) if column is not None]
        if any(len(column) != len(self.ids) for column in columns):
            raise ValueError("a row's columns differ in length")
        return self


class Emitted(Record):
    """A committed token. `text` is what it adds to the text ("" for the first bytes of a character that a later token completes).

    `node` is the accepted candidate, or None for a token that no candidate proposed.
    """

    token_id: TokenId
    text: Text
    kind: Kind
    node: Annotated[int, Field(ge=1)] | None = None


class Pass(Record):
    """One forward pass: `tokens` rows on top of `context` cached ones. `seconds` is measured, `flops` and `bytes` are computed.

    `weights` of the bytes are weights, which a batch would read once (None: not recorded, as in format 1).
    """

    kind: PassKind
    tokens: Count
    context: Count
    flops: NotNegative
    bytes: NotNegative
    weights: NotNegative | None = None
    seconds: NotNegative

    @model_validator(mode="after")
    def _weights_are_bytes(self) -> "Pass":
        if self.weights is not None and self.weights > self.bytes:
            raise ValueError("a pass whose weights are more than its bytes")
        return self


class BatchPass(Record):
    """A target pass that serves `batch` independent sequences at once; `work` counts all of them (`work.context` is that of each)."""

    batch: Annotated[int, Field(ge=1)]
    work: Pass


class ExpectedTokens(Record):
    """Tokens a step that the calibrated tree of so many `candidates` should yield: computed from the heads' measured accuracies."""

    candidates: Count
    tokens: NotNegative


class Timings(Record):
    """How long passes take on this machine, measured before a run with the run's own models and engine (medians of some repeats).

    `passes` are one prefill, target passes of 1 (plain), 2, 4 … 64 (verify) tokens, and passes of the proposer (draft: the draft model
    with 1, 2, 4 … tokens, or the heads once). `batches` are plain passes for 1, 2, 4, 8 sequences, where the engine can batch them.
    `trees` are given where the heads are calibrated.
    """

    passes: tuple[Pass, ...]
    batches: tuple[BatchPass, ...] = ()
    trees: tuple[ExpectedTokens, ...] = ()


class Match(Record):
    """An earlier place of the text where its last `length` tokens stood too: the tokens from `start` on (positions count from 0, the
    prompt first). What follows there was proposed, down to `node`; 0 where the tree had no room for it.
    """

    start: Count
    length: Annotated[int, Field(ge=1)]
    node: Annotated[int, Field(ge=0)]


class Seconds(Record):
    """Where the wall time of a step went; `record` is the cost of writing the step down, which decoding alone would not pay."""

    propose: NotNegative
    verify: NotNegative
    commit: NotNegative
    record: NotNegative = 0.0

    @property
    def decode(self) -> float:
        """Time of the step without the recording."""
        return self.propose + self.verify + self.commit


class Step(Record):
    """One propose → verify → commit round.

    `tree` and `rows` run in parallel, node by node, parents before children. `texts` names every token id of the rows. `context` is
    the number of committed tokens before the step, the root included. `stopped_at` is the last node on the accepted path (0: none
    was accepted): the extra token was drawn from its row. `dropped` counts tokens cut off behind an EOS or by the budget. `matches` are
    the places that a proposer copied from, the one that counts most first; () where it found none, None where nothing was looked up.
    """

    index: Count
    context: Annotated[int, Field(ge=1)]
    tree: Annotated[tuple[Node, ...], Field(min_length=1, max_length=1025)]
    rows: tuple[Row, ...]
    texts: dict[TokenId, Text]
    stopped_at: Annotated[int, Field(ge=0)]
    emitted: Annotated[tuple[Emitted, ...], Field(min_length=1)]
    dropped: Count = 0
    passes: tuple[Pass, ...]
    seconds: Seconds
    matches: tuple[Match, ...] | None = None  # since format 2

    @model_validator(mode="after")
    def _well_formed(self) -> "Step":
        if self.tree[0].parent != -1 or any(not 0 <= node.parent < i for i, node in enumerate(self.tree) if i):
            raise ValueError("a tree whose nodes do not follow their parents")
        if len(self.rows) != len(self.tree) or self.stopped_at >= len(self.tree):
            raise ValueError("a step whose rows do not match its tree")
        if any(e.node is not None and e.node >= len(self.tree) for e in self.emitted):
            raise ValueError("an emitted token of a node that does not exist")
        if any(token not in self.texts for row in self.rows for token in row.ids):
            raise ValueError("a token without its text")
        if any(match.start + match.length >= self.context or match.node >= len(self.tree) for match in self.matches or ()):
            raise ValueError("a match that lies outside of the text or of the tree")
        return self

    def depth(self, node: int) -> int:
        """Distance of `node` from the root."""
        return len(self.path(node)) - 1

    def path(self, node: int) -> list[int]:
        """The nodes from the root to `node`, both included."""
        path = [node]
        while (node := self.tree[node].parent) >= 0:
            path.append(node)
        return path[::-1]

    def children(self, node: int) -> list[int]:
        """The children of `node` in rank order."""
        return [i for i, child in enumerate(self.tree) if i and child.parent == node]
