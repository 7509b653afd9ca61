"""What a run leaves behind: plain data, from which every figure, table and sentence is made.

A `Trace` is a header and a list of `Step`s. Nothing here needs a model, torch or a network. Every row of a target or draft distribution
is cut to its top candidates, the mass of the rest, and the few scalars that the rules and the page need.

Conventions: p is the target's distribution and q the proposer's, both after warping (temperature, top-k, top-p, penalties). At
temperature 0 only the argmax decides; p and q are then recorded as they are at temperature 1, because a one-hot row shows nothing.
Natural logarithms throughout: entropies and divergences are in nats. Times are in seconds.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specviz.config import DecodeConfig
from specviz.i18n import Fault

FORMAT = 1
LARGEST_FILE = 32 * 2**20  # bytes of JSON after unpacking; a 512-step run of 64-node trees takes about half of it

Verdict = Literal["root", "accepted", "refused", "untested"]
Kind = Literal["accepted", "recovered", "bonus", "plain"]
PassKind = Literal["draft", "verify", "plain", "prefill"]
Ended = Literal["eos", "length", "context", "stopped"]

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Probability = Annotated[float, Field(ge=0, le=1.0001)]  # sums of rounded floats may exceed 1 by a hair
NotNegative = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(max_length=4096)]


class TraceError(Fault):
    """A trace file that cannot be read, in one sentence."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Node(_Record):
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


class Row(_Record):
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


class Emitted(_Record):
    """A committed token. `text` is what it adds to the text ("" for the first bytes of a character that a later token completes).

    `node` is the accepted candidate, or None for a token that no candidate proposed.
    """

    token_id: TokenId
    text: Text
    kind: Kind
    node: Annotated[int, Field(ge=1)] | None = None


class Pass(_Record):
    """One forward pass: `tokens` rows on top of `context` cached ones. `seconds` is measured, `flops` and `bytes` are computed."""

    kind: PassKind
    tokens: Count
    context: Count
    flops: NotNegative
    bytes: NotNegative
    seconds: NotNegative


class Seconds(_Record):
    """Where the wall time of a step went; `record` is the cost of writing the step down, which decoding alone would not pay."""

    propose: NotNegative
    verify: NotNegative
    commit: NotNegative
    record: NotNegative = 0.0

    @property
    def decode(self) -> float:
        """Time of the step without the recording."""
        return self.propose + self.verify + self.commit


class Step(_Record):
    """One propose → verify → commit round.

    `tree` and `rows` run in parallel, node by node, parents before children. `texts` names every token id of the rows. `context` is
    the number of committed tokens before the step, the root included. `stopped_at` is the last node on the accepted path (0: none
    was accepted): the extra token was drawn from its row. `dropped` counts tokens cut off behind an EOS or by the budget.
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


class ModelInfo(_Record):
    """A model or a set of heads: `sha256` of its weights, `parameters` counted, `source` in words (where it came from)."""

    name: Text
    sha256: Text
    parameters: Count
    source: Text = ""


class Baseline(_Record):
    """Plain decoding, measured in the same run on the same prompt: seconds of each token, and the passes for the roofline."""

    seconds: tuple[NotNegative, ...]
    passes: tuple[Pass, ...]
    token_ids: tuple[TokenId, ...]

    @property
    def seconds_per_token(self) -> float:
        """The median time of one plain token."""
        ordered = sorted(self.seconds)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Peaks(_Record):
    """The roofs of the machine, measured: matmul FLOP/s and read bytes/s at `dtype` on `device`; `measured_on` is an ISO date."""

    device: Text
    dtype: Text
    flops: Annotated[float, Field(gt=0)]
    bandwidth: Annotated[float, Field(gt=0)]
    measured_on: Text

    @property
    def ridge(self) -> float:
        """The arithmetic intensity (FLOP/byte) from which a pass is bound by arithmetic, not by memory."""
        return self.flops / self.bandwidth


class Header(_Record):
    """Everything that is true of the whole run."""

    program: Text  # "specviz 0.1.0"
    created: Text  # ISO 8601, UTC
    target: ModelInfo
    proposer: ModelInfo | None
    engine: Text  # "hf"
    device: Text  # "cpu"
    device_name: Text  # "AMD EPYC"
    dtype: Text  # "bfloat16"
    threads: Count = 0
    config: DecodeConfig
    prompt: Annotated[str, Field(max_length=200_000)]
    prompt_ids: tuple[TokenId, ...]
    eos_ids: tuple[TokenId, ...]
    versions: dict[Text, Text]
    peaks: Peaks | None = None
    baseline: Baseline | None = None


class Trace(_Record):
    """A whole run. `format` is the version of this file format; a reader refuses one that it does not know."""

    format: Literal[1] = FORMAT
    header: Header
    steps: tuple[Step, ...]
    ended: Ended

    @property
    def emitted(self) -> Iterator[Emitted]:
        """Every committed token in order."""
        return (token for step in self.steps for token in step.emitted)

    @property
    def text(self) -> str:
        """The text that the run produced."""
        return "".join(token.text for token in self.emitted)

    @property
    def token_ids(self) -> list[int]:
        """The ids of the tokens that the run produced."""
        return [token.token_id for token in self.emitted]

    def to_json(self) -> bytes:
        """The trace as JSON (schema: assets/trace.schema.json)."""
        return orjson.dumps(self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, data: bytes | str) -> "Trace":
        """Read a trace from JSON; raises TraceError, with one sentence, for anything else."""
        if len(data) > LARGEST_FILE:
            raise TraceError("error.trace_large", limit=LARGEST_FILE // 2**20)
        try:
            raw = orjson.loads(data)
        except (orjson.JSONDecodeError, RecursionError) as error:
            raise TraceError("error.trace_json") from error
        if not isinstance(raw, dict) or "format" not in raw or "steps" not in raw:
            raise TraceError("error.trace_foreign")
        if raw["format"] != FORMAT:
            raise TraceError("error.trace_format", found=str(raw["format"])[:20], known=FORMAT)
        try:
            return cls.model_validate(raw)
        except (ValidationError, RecursionError) as error:
            raise TraceError("error.trace_damaged", reason=_first_fault(error)) from error

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON, gzipped when the name ends in .gz; never leaves half a file."""
        path = Path(path)
        data = self.to_json()
        if path.suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        part = path.with_name(path.name + ".part")
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read a trace file (.json or .json.gz); raises TraceError, with one sentence, when it is not one."""
        try:
            with open(path, "rb") as file:
                start = file.read(2)
                file.seek(0)
                reader = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
                data = reader.read(LARGEST_FILE + 1)  # a small file may unpack into gigabytes
        except OSError as error:
            reason = error.strerror or "the file is damaged"
            raise TraceError("error.trace_unreadable", name=Path(path).name, reason=reason) from error
        except (EOFError, zlib.error) as error:
            raise TraceError("error.trace_cut", name=Path(path).name) from error
        return cls.from_json(data)


def _first_fault(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is nested too deeply"
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])[:120]
    return f"{where or 'its contents'}: {fault['msg'][:160]}"


def json_schema() -> dict:
    """The JSON schema of a trace, as committed in assets/trace.schema.json."""
    return Trace.model_json_schema()


if __name__ == "__main__":
    (Path(__file__).resolve().parents[1] / "assets" / "trace.schema.json").write_bytes(
        orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2) + b"\n"
    )
