"""What a run leaves behind: a header and its steps, from which every figure, table and sentence is made.

Nothing here needs a model, torch or a network. Every row of a distribution is cut to its top candidates, the mass of the rest, and the
few scalars that the rules and the page need. The conventions for p, q and units stand in step.py.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import Field, ValidationError

from specviz.config import DecodeConfig
from specviz.i18n import Fault
from specviz.step import (
    BatchPass,
    Count,
    Emitted,
    ExpectedTokens,
    Kind,
    Match,
    Node,
    NotNegative,
    Pass,
    PassKind,
    Record,
    Row,
    Seconds,
    Step,
    Text,
    Timings,
    TokenId,
    Verdict,
)

__all__ = [
    "Baseline", "BatchPass", "Emitted", "Ended", "ExpectedTokens", "Header", "Kind", "Match", "ModelInfo", "Node", "Pass", "PassKind",
    "Peaks", "Row", "Seconds", "Step", "Timings", "Trace", "TraceError", "Verdict", "json_schema",
]  # fmt: skip

FORMAT: Literal[2] = 2
READABLE = (1, 2)  # format 2 added timings, the prompt's texts and matches; what format 1 holds means the same in both
LARGEST_FILE = 32 * 2**20  # bytes of JSON after unpacking; a 512-step run of 64-node trees takes about half of it

Ended = Literal["eos", "length", "context", "stopped"]
Prompt = Annotated[str, Field(max_length=200_000)]


class TraceError(Fault):
    """A trace file that cannot be read, in one sentence."""


class ModelInfo(Record):
    """A model or a set of heads: `sha256` of its weights, `parameters` counted, `source` in words (where it came from)."""

    name: Text
    sha256: Text
    parameters: Count
    source: Text = ""


class Baseline(Record):
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


class Peaks(Record):
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


class Header(Record):
    """Everything that is true of the whole run.

    `prompt_texts` are what the prompt's tokens add to the text one by one, those of the chat template too, and `prompt_start` counts their
    characters (code points) in front of `prompt`; None where it does not stand there as it was written.
    """

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
    prompt: Prompt
    prompt_ids: tuple[TokenId, ...]
    eos_ids: tuple[TokenId, ...]
    versions: dict[Text, Text]
    peaks: Peaks | None = None
    baseline: Baseline | None = None
    timings: Timings | None = None  # since format 2, as what follows
    prompt_texts: tuple[Prompt, ...] | None = None
    prompt_start: Count | None = None


class Trace(Record):
    """A whole run. `format` is the version of this file format; a reader refuses one that it does not know."""

    format: Literal[1, 2] = FORMAT
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
        if raw["format"] not in READABLE:
            raise TraceError("error.trace_format", found=str(raw["format"])[:20], known=" / ".join(map(str, READABLE)))
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
