"""The model pairs that SpecViz knows by name, and what each asks of the machine.

Parameters are those of the published checkpoints; memory is computed from them. Revisions are "main": no commit was checked for this
list, and a hash that nobody has seen would be worse than none. The hashes of the files that were really loaded stand in every trace.
"""

from dataclasses import dataclass
from pathlib import Path

from specviz.i18n import ASSETS, Fault

SHIPPED = ASSETS / "models" / "smollm2-135m"  # this project's own draft and heads for the embedded target
ADAPTED_FILES = ("adapter_model.safetensors", "adapter_config.json", "medusa.safetensors")
HEADROOM = 1.15  # assumed: keys, values and activations of one conversation take up to 15 % on top of the weights

VICUNA_CHAT = (  # the tokenizer of Vicuna 1.3 carries no chat template; this is the prompt that its authors publish, its spaces included
    "{{ bos_token }} A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
    "{% for message in messages %}{% if message['role'] == 'user' %}USER: {{ message['content'] }} "
    "{% else %}ASSISTANT: {{ message['content'] }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@dataclass(frozen=True)
class Part:
    """A published checkpoint. `gated`: its licence must be accepted on the hub first. `safetensors`: whether its weights are."""

    repo: str
    parameters: int
    licence: str
    revision: str = "main"
    gated: bool = False
    safetensors: bool = True


@dataclass(frozen=True)
class Entry:
    """A target and what proposes for it. `hub` is False for the one that comes from the package index.

    `adapter` is a folder with a LoRA adapter for the target, and with the heads that were trained together with it (Medusa-2): the pair
    is another model than the target alone.
    """

    name: str
    target: Part
    draft: Part | None = None
    medusa: Part | None = None
    hub: bool = True
    chat_template: str | None = None
    adapter: Path | None = None

    @property
    def label(self) -> str:
        """What the target is called; with an adapter it is not the published model any more, and says so."""
        name = self.target.repo.rpartition("/")[2]
        return name if self.adapter is None else f"{name} + Medusa-2"

    @property
    def here(self) -> bool:
        """Whether the files that only this project has are there."""
        return self.adapter is None or all((self.adapter / name).is_file() for name in ADAPTED_FILES)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The checkpoints that it needs."""
        return tuple(part for part in (self.target, self.draft, self.medusa) if part)

    @property
    def licences(self) -> tuple[str, ...]:
        """The licences of its parts, each once."""
        return tuple(dict.fromkeys(part.licence for part in self.parts))

    def weight_bytes(self, bytes_per_value: int) -> int:
        """Bytes of all weights: parameters × bytes of a value."""
        return sum(part.parameters for part in self.parts) * bytes_per_value

    def memory(self, bytes_per_value: int) -> int:
        """Bytes that the pair needs to run: its weights and HEADROOM."""
        return int(self.weight_bytes(bytes_per_value) * HEADROOM)


_APACHE, _LLAMA31, _LLAMA32 = "Apache-2.0", "Llama 3.1 Community", "Llama 3.2 Community"
_SMOLLM_135M = Part("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008, _APACHE)
_QWEN_05B = Part("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768, _APACHE)

_ALL = (
    Entry("embedded", _SMOLLM_135M, hub=False),  # its draft and heads are this project's own
    Entry("embedded-medusa2", _SMOLLM_135M, hub=False, adapter=SHIPPED / "medusa2"),
    Entry("smollm2-1.7b", Part("HuggingFaceTB/SmolLM2-1.7B-Instruct", 1_711_376_384, _APACHE), _SMOLLM_135M),
    Entry("qwen2.5-1.5b", Part("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304, _APACHE), _QWEN_05B),
    Entry("qwen2.5-7b", Part("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512, _APACHE), _QWEN_05B),
    Entry(
        "llama-3.1-8b",
        Part("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248, _LLAMA31, gated=True),
        Part("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400, _LLAMA32, gated=True),
    ),
    Entry(
        "vicuna-7b",
        # published as a pickle: read by torch's restricted unpickler, which admits tensors only
        Part("lmsys/vicuna-7b-v1.3", 6_738_415_616, "LLaMA, non-commercial", safetensors=False),
        medusa=Part("FasterDecoding/medusa-vicuna-7b-v1.3", 739_266_560, "see its model card", safetensors=False),
        chat_template=VICUNA_CHAT,
    ),
)
ENTRIES = tuple(entry for entry in _ALL if entry.here)
NAMES = tuple(entry.name for entry in ENTRIES)


def find(name: str) -> Entry:
    """The entry called `name`; raises Fault, listing the names, when there is none."""
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    raise Fault("models.unknown", name=str(name)[:60], choices=", ".join(NAMES))


def base_of(name: str) -> str:
    """What other programs call the target of a pair: its repository, or the pair's own name where no repository holds that target."""
    entry = next((one for one in ENTRIES if one.name == name), None)
    return name if entry is None else entry.target.repo if entry.adapter is None else entry.label
