"""Dequantise a GGUF file into a transformers folder in bfloat16: `python -m specviz.models.convert FILE FOLDER`.

A process of its own, because it takes a gigabyte of memory and half a minute that a page which is already open should not feel.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf: Path, folder: Path) -> None:
    """Write the model of `gguf`, and its tokenizer, to `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32, local_files_only=True)
    model.hf_quantizer = None  # transformers refuses to save what it believes to be quantised
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
