"""The catalogue: what it promises, and the arithmetic of its memory."""

import re

import pytest
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError
from transformers import AutoTokenizer

from specviz.i18n import Fault
from specviz.models import catalog, hub
from tests.models.tiny import write_tokenizer


def test_the_pairs_that_the_program_names():
    pairs = {entry.name: [part.repo.split("/")[1] for part in entry.parts] for entry in catalog._ALL}
    assert pairs == {
        "embedded": ["SmolLM2-135M-Instruct"],
        "embedded-medusa2": ["SmolLM2-135M-Instruct"],
        "smollm2-1.7b": ["SmolLM2-1.7B-Instruct", "SmolLM2-135M-Instruct"],
        "qwen2.5-1.5b": ["Qwen2.5-1.5B-Instruct", "Qwen2.5-0.5B-Instruct"],
        "qwen2.5-7b": ["Qwen2.5-7B-Instruct", "Qwen2.5-0.5B-Instruct"],
        "llama-3.1-8b": ["Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct"],
        "vicuna-7b": ["vicuna-7b-v1.3", "medusa-vicuna-7b-v1.3"],
    }


def test_no_two_pairs_are_called_the_same():
    labels = {entry.label for entry in catalog._ALL}
    assert len(labels) == len(catalog._ALL) and "vicuna-7b-v1.3" in labels


def test_vicuna_is_asked_as_its_authors_ask_it(tmp_path):
    """The published prompt: single spaces between turns, none behind an answer, the beginning-of-text token first."""
    write_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.chat_template = catalog.find("vicuna-7b").chat_template
    said = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "How are you?"}]
    system = (
        "A chat between a curious user and an artificial intelligence assistant. "
        "The assistant gives helpful, detailed, and polite answers to the user's questions."
    )
    wanted = f"<s> {system} USER: Hello! ASSISTANT: Hi.</s>USER: How are you? ASSISTANT:"
    assert tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True) == wanted


def test_every_part_has_a_licence_and_an_honest_revision():
    for part in (part for entry in catalog.ENTRIES for part in entry.parts):
        assert part.licence
        assert part.revision == "main" or re.fullmatch("[0-9a-f]{40}", part.revision)


def test_parameters_follow_from_the_published_dimensions():
    """Llama family: V·d (twice, untied) + layers·(attention + 3·d·ffn + 2·d) + d."""

    def llama(rows: int, d: int, layers: int, kv: int, ffn: int, tied: bool, bias: int = 0) -> int:
        return rows * d * (1 if tied else 2) + layers * (2 * d * d + 2 * d * kv + 3 * d * ffn + 2 * d + bias) + d

    counts = {part.repo.split("/")[1]: part.parameters for entry in catalog.ENTRIES for part in entry.parts}
    assert counts["SmolLM2-135M-Instruct"] == llama(49152, 576, 30, 192, 1536, tied=True)
    assert counts["SmolLM2-1.7B-Instruct"] == llama(49152, 2048, 24, 2048, 8192, tied=True)
    assert counts["Qwen2.5-0.5B-Instruct"] == llama(151936, 896, 24, 128, 4864, tied=True, bias=896 + 2 * 128)
    assert counts["Qwen2.5-1.5B-Instruct"] == llama(151936, 1536, 28, 256, 8960, tied=True, bias=1536 + 2 * 256)
    assert counts["Qwen2.5-7B-Instruct"] == llama(152064, 3584, 28, 512, 18944, tied=False, bias=3584 + 2 * 512)
    assert counts["Llama-3.1-8B-Instruct"] == llama(128256, 4096, 32, 1024, 14336, tied=False)
    assert counts["Llama-3.2-1B-Instruct"] == llama(128256, 2048, 16, 512, 8192, tied=True)
    assert counts["vicuna-7b-v1.3"] == llama(32000, 4096, 32, 4096, 11008, tied=False)
    assert counts["medusa-vicuna-7b-v1.3"] == 5 * (4096 * 4096 + 4096 + 4096 * 32000)


def test_memory_is_weights_and_headroom():
    entry = catalog.find("llama-3.1-8b")
    assert entry.weight_bytes(2) == 2 * (8_030_261_248 + 1_235_814_400)
    assert entry.memory(4) == int(4 * (8_030_261_248 + 1_235_814_400) * catalog.HEADROOM)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(Fault, match="embedded, .*smollm2-1.7b, qwen2.5-1.5b, qwen2.5-7b, llama-3.1-8b, vicuna-7b"):
        catalog.find("?")


class Answer:
    """As much of an HTTP response as the hub's errors want."""

    status_code, headers, request = 403, {}, None


def refusal(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "no")
    error.response, error.errno = Answer(), None
    return error


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (refusal(GatedRepoError), "models.gated"),
        (refusal(RepositoryNotFoundError), "models.not_on_hub"),
        (refusal(hub.HfHubHTTPError), "models.hub_refused"),
        (LocalEntryNotFoundError("offline"), "models.unreachable"),
        (OSError(28, "No space left on device"), "models.disk_full"),
        (ConnectionError("down"), "models.unreachable"),
        (RuntimeError("whatever its HTTP library raises"), "models.unreachable"),
    ],
)
def test_what_the_hub_refuses_becomes_one_sentence(monkeypatch, error, key):
    def refuse(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(Fault) as fault:
        hub.fetch(catalog.find("llama-3.1-8b").target)
    assert fault.value.key == key


def test_only_weights_that_can_be_read_safely_are_taken(monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "snapshot_download", lambda repo, **options: asked.append(options["allow_patterns"]) or "/nowhere")
    hub.fetch(catalog.find("qwen2.5-7b").target)
    hub.fetch(catalog.find("vicuna-7b").target)
    hub.fetch(catalog.find("vicuna-7b").target, weights=False)
    assert [any("bin" in pattern for pattern in patterns) for patterns in asked] == [False, True, False]
    assert "*.safetensors" not in asked[2]


def test_cached_only_when_all_of_it_is_there(monkeypatch, tmp_path):
    part = catalog.find("qwen2.5-7b").target
    monkeypatch.setattr(hub, "snapshot_download", lambda *args, **options: str(tmp_path))
    assert not hub.cached(part)
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"x")
    assert hub.cached(part)
    (tmp_path / "model-00002-of-00002.safetensors").symlink_to(tmp_path / "gone")
    assert not hub.cached(part)


def test_a_hub_that_does_not_answer(monkeypatch, offline):
    monkeypatch.setattr(hub, "cached", lambda part: False)
    assert not hub.answers(catalog.find("smollm2-1.7b"))
    monkeypatch.setattr(hub, "cached", lambda part: True)
    assert hub.answers(catalog.find("smollm2-1.7b"))
