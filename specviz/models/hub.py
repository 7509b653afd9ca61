"""Checkpoints of the Hugging Face hub: whether one can be had, and the folder where it lies."""

from pathlib import Path

import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from specviz.i18n import Fault
from specviz.models import catalog
from specviz.models.catalog import Entry, Part

TEXT_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
PATIENCE = 4.0  # seconds to wait for an answer when only asking


def default_name() -> str:
    """The pair to start with: SmolLM2-1.7B with 135M on a CUDA machine that reaches the hub, the embedded one everywhere else."""
    large = catalog.find("smollm2-1.7b")
    return large.name if torch.cuda.is_available() and answers(large) else "embedded"


def answers(entry: Entry) -> bool:
    """Whether the hub would give us all parts of `entry` now, or they lie in its cache already."""
    try:
        for part in entry.parts:
            if not cached(part):
                HfApi().model_info(part.repo, revision=part.revision, timeout=PATIENCE)
    except Exception:  # asking is all this does: whatever stands in the way, `fetch` says what it is
        return False
    return True


def cached(part: Part) -> bool:
    """Whether the hub's cache on this machine holds the weights of `part`."""
    try:
        folder = Path(snapshot_download(part.repo, revision=part.revision, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return False
    return any(any(folder.glob(pattern)) for pattern in weight_files(part)) and _all_shards(folder)


def fetch(part: Part, weights: bool = True) -> Path:
    """The folder of `part`, downloaded where it is not cached; raises Fault, in one sentence, when the hub does not give it.

    Without `weights` only the configuration and the tokenizer are taken.
    """
    patterns = [*TEXT_FILES, *(weight_files(part) if weights else ())]
    try:
        return Path(snapshot_download(part.repo, revision=part.revision, allow_patterns=patterns, ignore_patterns=["original/*", "onnx/*"]))
    except GatedRepoError as error:
        raise Fault("models.gated", repo=part.repo) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError) as error:
        offline = isinstance(error, LocalEntryNotFoundError)
        raise Fault("models.unreachable" if offline else "models.not_on_hub", repo=part.repo, revision=part.revision) from error
    except HfHubHTTPError as error:
        raise Fault("models.hub_refused", repo=part.repo, status=getattr(error.response, "status_code", "?")) from error
    except OSError as error:
        key = "models.disk_full" if error.errno == 28 else "models.unreachable"
        raise Fault(key, repo=part.repo, revision=part.revision) from error
    except Exception as error:  # the hub's client lets errors of its HTTP library through, and changes that library
        raise Fault("models.unreachable", repo=part.repo, revision=part.revision) from error


def weight_files(part: Part) -> tuple[str, ...]:
    """The files that hold the weights: safetensors, and pickles only for the checkpoints that are known to have nothing else."""
    return ("*.safetensors",) if part.safetensors else ("*.safetensors", "pytorch_model*.bin", "medusa_lm_head.pt")


def _all_shards(folder: Path) -> bool:
    """Whether the download of a checkpoint in several files was finished: none of its links points nowhere."""
    return all(path.exists() for path in folder.iterdir())
