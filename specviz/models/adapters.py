"""A LoRA adapter (Hu et al. 2021) in peft's format, merged into a backbone: W ← W + (α/r)·B·A. The result is a model like any other.

Strict as checkpoints.py is: an adapter that leaves a tensor over, lacks one or has another shape was made for another model.
"""

import hashlib
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedModel

from specviz.i18n import Fault
from specviz.models.tensors import Checkpoint, check, file_hash, find

if TYPE_CHECKING:
    from peft import LoraConfig

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def merge(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """`model` with the adapter of `folder` merged into its weights, in their dtype; `model` itself is used up.

    Raises Fault where the adapter is missing, damaged, no LoRA adapter, or made for other layers or another width; `model` is spoilt then.
    """
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict  # takes a second, and few pairs need it

    path, config = find(folder, (WEIGHTS,)), _config(folder)
    file = Checkpoint(path)
    tensors = file.read(file.names)
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # peft asks transformers for a name that it will drop
            wrapped = get_peft_model(model, config)
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # none of the modules that it names, or a rank that is none
        modules = [config.target_modules] if isinstance(config.target_modules, str) else sorted(config.target_modules or ())
        raise Fault("error.adapter_foreign", path=path, key=f"r = {config.r}: {', '.join(modules)}"[:80]) from error
    wanted = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    if unpaired := sorted(wanted.keys() ^ tensors.keys()):
        raise Fault("error.adapter_foreign", path=path, key=unpaired[0][:80])
    for name, tensor in tensors.items():
        check(path, name, tensor, tuple(wanted[name].shape))
    set_peft_model_state_dict(wrapped, tensors)
    return wrapped.merge_and_unload().eval().requires_grad_(False)


def merged_hash(target: str, folder: Path) -> str:
    """The SHA-256 of a target's hash and those of the adapter's two files, one a line (its scale stands in its description)."""
    hashes = [target, *(file_hash(find(folder, (name,))) for name in (WEIGHTS, CONFIG))]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _config(folder: Path) -> "LoraConfig":
    """The adapter's description; how its tensors were initialised once is nothing to repeat."""
    from peft import LoraConfig

    path = find(folder, (CONFIG,))
    try:
        kind = json.loads(path.read_text(encoding="utf-8"))["peft_type"]
        if kind != "LORA":
            raise Fault("error.adapter_kind", path=path, kind=str(kind)[:40])
        with warnings.catch_warnings(action="error", category=UserWarning):  # about options that would be left out
            config = LoraConfig.from_pretrained(str(folder))
    except UserWarning as warning:
        raise Fault("error.adapter_newer", path=path) from warning
    except Fault:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Fault("error.checkpoint_card", path=path.name) from error
    config.init_lora_weights, config.inference_mode = True, True
    config.base_model_name_or_path = None  # the path on another machine; shapes tell what fits
    return config
