"""A chat template around a user's turn, in tokens."""

from dataclasses import dataclass

from specviz.engine.lm import Tokenizer
from specviz.i18n import Fault

MARKER = "specviz-user-turn"  # stands for the user's turn, to cut a template in two


@dataclass(frozen=True)
class Template:
    """What stands before the user's words, and between them and the answer, e.g. <|im_end|> \\n <|im_start|> assistant \\n."""

    prefix: list[int]
    turn_over: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Template":
        """The template of a tokenizer; raises Fault where it has none, or one that does not repeat the user's words behind a beginning."""
        if not tokenizer.chat_template:
            raise Fault("training.no_template")
        text = tokenizer.apply_chat_template([{"role": "user", "content": MARKER}], tokenize=False, add_generation_prompt=True)
        if text.count(MARKER) != 1 or text.startswith(MARKER):
            raise Fault("training.template_user")
        return cls(*(tokenizer.encode(half, add_special_tokens=False) for half in text.split(MARKER)))
