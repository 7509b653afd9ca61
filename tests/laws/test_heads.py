"""Laws of Medusa heads: greedy text is the target's whatever the heads say, in whichever layout they lie; nothing past a leaf matches."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

import specviz
from specviz.config import RULES, DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import Decoding, proposer_of
from specviz.engine.proposers.base import Committed
from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa, read_medusa
from specviz.models.export import FORMATS, Export
from specviz.models.load import load_local
from specviz.models.output import lm_head
from specviz.trace import Trace
from tests.fakes import VOCAB, table_pair
from tests.models.tiny import write_llama, write_tokenizer

WIDTH, TOKENS, PROMPT = 32, 100, "Hello there, the hat"
TREES = (None, "3x2x1", "1x1x1", "[[0],[1],[2],[0,0],[0,3],[1,0],[0,0,1]]", "[[5],[5,5],[5,5,5]]")


def random(*shape: int, seed: int, scale: float = 0.3) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def blocks(weight: str, bias: str | None, layers: int = 1, scale: float = 0.3) -> dict[str, Tensor]:
    found = {weight.format(i=i, j=j): random(WIDTH, WIDTH, seed=10 * i + j, scale=scale) for i in range(3) for j in range(layers)}
    return found | ({bias.format(i=i, j=j): random(WIDTH, seed=50 + 10 * i + j) for i in range(3) for j in range(layers)} if bias else {})


def published(layers: int = 1, **more: Tensor) -> dict[str, Tensor]:
    return blocks("{i}.{j}.linear.weight", "{i}.{j}.linear.bias", layers) | more


def vllm(**more: Tensor) -> dict[str, Tensor]:
    return blocks("blocks.{i}.layers.{j}.weight", None) | more


MAP = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(9))[:40]
OWN = {f"{i}.1.weight": random(TOKENS, WIDTH, seed=90 + i) for i in range(3)}
HEADS = {
    "v1": published(**OWN),
    "v1 with two layers": published(2, **{f"{i}.2.weight": OWN[f"{i}.1.weight"] for i in range(3)}),
    "v1 of the whole model": {f"medusa_head.{name}": tensor for name, tensor in published(**OWN).items()},
    "v2": published(),
    "v2 with a token map": published(token_map=MAP),
    "v2 that says nothing new": blocks("{i}.{j}.linear.weight", "{i}.{j}.linear.bias", scale=0.0),
    "vLLM": vllm(**{f"lm_heads.{i}.weight": OWN[f"{i}.1.weight"] for i in range(3)}),
    "vLLM with one LM head and a token map": vllm(token_map=MAP, **{"lm_head.weight": random(40, WIDTH, seed=7)}),
    "vLLM with the target's LM head": vllm(),
    "v1 with enormous scores": published(**{name: 1e6 * head for name, head in OWN.items()}),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A tiny Llama, in fp32."""
    folder = tmp_path_factory.mktemp("target")
    write_tokenizer(folder)
    write_llama(folder, rows=TOKENS, layers=3)
    return load_local(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def plain(pair: Pair) -> Trace:
    return specviz.run(pair, PROMPT, method="plain", max_new_tokens=32, baseline=False)


def with_heads(pair: Pair, folder: Path, tensors: dict[str, Tensor]) -> Pair:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "medusa.safetensors")
    return replace(pair, medusa=load_medusa(folder, lm_head(pair.target)))


@pytest.mark.parametrize("name", HEADS)
def test_greedy_text_with_any_heads_is_plain_greedy_text(pair: Pair, plain: Trace, tmp_path: Path, name: str) -> None:
    subject, accepted = with_heads(pair, tmp_path, HEADS[name]), 0
    for tree, rule in zip(TREES, (*RULES, "greedy"), strict=True):
        trace = specviz.run(subject, PROMPT, method="medusa", rule=rule, tree=tree, max_new_tokens=32, baseline=False)
        assert trace.token_ids == plain.token_ids and trace.text == plain.text, (tree, rule)
        accepted += sum(token.kind == "accepted" for step in trace.steps for token in step.emitted)
    assert accepted or name != "v2 that says nothing new"


def test_greedy_text_with_the_embedded_model_and_random_heads(embedded_pair: Pair, tmp_path: Path) -> None:
    width, prompt = embedded_pair.target.shape.width, "Name three rivers in Europe."
    tensors = {f"{i}.0.linear.weight": random(width, width, seed=i, scale=0.05) for i in range(4)}
    tensors |= {f"{i}.0.linear.bias": random(width, seed=9 + i) for i in range(4)}
    subject = with_heads(embedded_pair, tmp_path, tensors)
    plain = specviz.run(embedded_pair, prompt, method="plain", max_new_tokens=64, baseline=False)
    for tree in ("4x2x1x1", "[[0],[1],[2],[0,0],[1,0],[0,0,0]]"):
        assert specviz.run(subject, prompt, method="medusa", tree=tree, max_new_tokens=64, baseline=False).token_ids == plain.token_ids


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", HEADS)
def test_heads_in_any_layout_give_the_same_proposals(pair: Pair, tmp_path: Path, name: str, form: str) -> None:
    """Logits bit for bit, and the candidates with their q, at every step of a sampled run."""
    before, target = with_heads(pair, tmp_path / "in", HEADS[name]), lm_head(pair.target)
    export = Export(read_medusa(tmp_path / "in", target), target.get_output_embeddings().weight, "base")
    if (form in ("v1", "v2") and "map" in name) or (form == "v2" and ("v1" in name or name == "vLLM")):
        with pytest.raises(Fault):
            export.write(form, tmp_path / "out")
        return
    export.write(form, tmp_path / "out")
    after = replace(pair, medusa=load_medusa(tmp_path / "out", target))
    hidden = torch.randn(9, WIDTH)
    assert torch.equal(after.medusa.logits(hidden), before.medusa.logits(hidden))
    proposed = [
        [
            ([(node.token_id, node.parent, node.q) for node in step.tree], [row.q for row in step.rows])
            for step in specviz.run(
                subject, PROMPT, method="medusa", tree="3x2x1", temperature=0.8, seed=3, max_new_tokens=24, baseline=False
            ).steps
        ]
        for subject in (before, after)
    ]
    assert proposed[0] == proposed[1] and len(proposed[0]) > 3


LOVED = 0  # the token id that padding turns into


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_nothing_past_a_leaf_is_ever_accepted(data: st.DataObject) -> None:
    """Trees with leaves at several depths, and a target that writes token 0 wherever it can.

    The published code pads shorter paths with −1, which is read as the last node's logits and as token 0, so that this target seems to
    accept candidates that nobody proposed. A path here ends with its leaf: what is accepted is a node, with its own token, below its own
    parent, and the token behind a leaf is the target's own.
    """
    pair = table_pair(seed=data.draw(st.integers(0, 20)))
    pair.target.table[..., LOVED] += data.draw(st.sampled_from([2.0, 30.0]))
    pair.medusa.table[..., LOVED] += data.draw(st.sampled_from([-30.0, 0.0, 30.0]))
    tree = data.draw(st.sampled_from(["[[0],[1],[0,0]]", "[[0],[1],[2],[1,0],[1,0,0]]", "[[3],[0],[3,0],[3,1],[3,0,2]]", "[[1]]", "2x1"]))
    rule = data.draw(st.sampled_from(RULES))
    config = DecodeConfig(
        method="medusa", rule=rule, tree=tree, temperature=data.draw(st.sampled_from([0.0, 1.0])), chat=False, max_new_tokens=24
    )
    for done in Decoding(pair, [0, 1, 2], config).rounds():
        node, accepted = 0, [token for token in done.emitted if token.kind == "accepted"]
        for token in accepted:
            assert token.node in done.tree.children[node], "a candidate below its own parent"
            assert token.token_id == done.tree.tokens[token.node], "and with its own token"
            node = token.node
        assert len(accepted) <= max(done.tree.depths)
        if not done.tree.children[node]:
            assert done.emitted[-1].kind in ("bonus", "plain") or done.dropped


def test_a_target_that_writes_only_token_0_accepts_exactly_the_candidates_that_are_0() -> None:
    pair = table_pair()
    pair.target.table[..., LOVED] = 1e3
    for favour, length in ((-1e3, 1), (1e3, 4)):  # heads that never say 0, and heads that say nothing else first
        pair.medusa.table[..., LOVED] = favour
        for tree, most in (("[[0],[1],[0,0],[0,0,0]]", 4), ("[[0],[1],[1,0]]", 2), ("[[1],[1,0]]", 1)):
            config = DecodeConfig(method="medusa", rule="greedy", tree=tree, chat=False, max_new_tokens=24)
            rounds = [len(done.emitted) for done in Decoding(pair, [1, 2], config).rounds()]
            assert set(rounds[:-1]) == {min(length, most)}, (favour, tree)


def test_the_law_notices_padding() -> None:
    """The mistake of the published code, made here: a padded path is longer than its leaf, and a target that loves token 0 falls for it."""
    config = DecodeConfig(method="medusa", rule="greedy", tree="[[0],[1],[1,0]]", chat=False)
    pair = table_pair()
    pair.target.table[..., LOVED] = 1e3
    pair.medusa.table[..., LOVED] = 1e3
    committed = Committed([1, 2], torch.tensor([1.0, 2.0], dtype=torch.float64), config, torch.Generator())
    tree = proposer_of(pair, config).propose(committed, 3).tree
    leaf = tree.tokens.index(LOVED, 1)
    path = [*tree.path(leaf)[1:], -1]  # padded to the length of the longest path
    tokens = [*tree.tokens, LOVED]
    argmax = pair.target.table[0, [*tree.tokens, LOVED]].argmax(-1).tolist()
    matched = [tokens[node] == argmax[above] for above, node in zip([0, *path], path, strict=False)]
    assert all(matched) and len(path) == 2 > len(tree.path(leaf)) - 1, "a padded path matches past its leaf"
    assert not tree.children[leaf] and VOCAB == 6
