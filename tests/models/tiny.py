"""Tiny checkpoints in the hub's format: a character tokenizer of 100 tokens and a random Llama, written in well under a second."""

import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIALS = ["<unk>", "<s>", "</s>"]
CHARACTERS = sorted(string.ascii_letters + string.digits + string.punctuation + " ")  # 95
MERGES = [("t", "h"), ("h", "e")]
CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"


def write_tokenizer(
    folder: Path, merges: list[tuple[str, str]] = MERGES, extra: tuple[str, ...] = (), order: int = 1, eos: str = "</s>"
) -> None:
    """A BPE tokenizer over characters: 3 special tokens, 95 characters (in reverse where `order` is -1), the merged pairs, `extra`."""
    tokens = [*SPECIALS, *CHARACTERS[::order], *sorted({a + b for a, b in merges}), *extra]
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token=eos, chat_template=CHAT)
    fast.save_pretrained(folder)


def write_llama(folder: Path, rows: int = 100, layers: int = 2, seed: int = 0, tied: bool = True, eos: int | list[int] = 2) -> None:
    """A random Llama whose LM head has `rows` rows; it is sure enough of itself for sampled text to vary with the context."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=512, tie_word_embeddings=tied, initializer_range=0.3, bos_token_id=1, eos_token_id=eos,
        pad_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def write_pair(root: Path, target_rows: int = 100, draft_rows: int = 100) -> tuple[Path, Path]:
    """A target of two layers and a draft of one, over the same 100 tokens."""
    target, draft = root / "target", root / "draft"
    for folder, rows, layers in ((target, target_rows, 2), (draft, draft_rows, 1)):
        folder.mkdir(parents=True)
        write_tokenizer(folder)
        write_llama(folder, rows, layers, seed=layers)
    return target, draft
