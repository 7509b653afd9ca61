"""The one public endpoint, /trace: the parameters of a run in, its trace out."""

from collections.abc import Callable

import gradio as gr

from specviz.i18n import Fault
from specviz.ui import handlers
from specviz.ui.session import Line, Stops


def trace_endpoint(line: Line, stops: Stops) -> Callable:
    """The function behind /trace. Gradio reads names, types and defaults from it, and shows its docstring to callers."""

    async def trace(
        request: gr.Request,
        prompt: str,
        pair: str = "embedded",
        method: str = "draft",
        rule: str = "rejection",
        k: int = 5,
        tree: str = "",
        ngram_max: int = 4,
        ngram_min: int = 2,
        ngram_match: str = "recent",
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        epsilon: float = 0.09,
        delta: float = 0.3,
        max_new_tokens: int = 64,
        seed: int = 0,
        chat: bool = True,
    ) -> dict:
        """Decode `prompt` speculatively and return the whole run as a trace (its schema: assets/trace.schema.json).

        The parameters and their bounds are those of specviz.decode, but a run writes at most 512 tokens here; `tree` "" is the
        method's default. Runs wait for each other. What cannot be done comes back as an error of one sentence.
        """
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "repetition_penalty": repetition_penalty, "seed": seed}
        judging = {"method": method, "rule": rule, "k": k, "tree": tree, "epsilon": epsilon, "delta": delta}
        lookup = {"ngram_max": ngram_max, "ngram_min": ngram_min, "ngram_match": ngram_match}
        length = {"max_new_tokens": max_new_tokens, "chat": chat}
        parameters = {"pair": pair, "prompt": prompt, **sampling, **judging, **lookup, **length}
        try:
            whole = await handlers.trace(parameters, line, stops, request.session_hash)
        except Fault as fault:
            raise gr.Error(str(fault), print_exception=False) from fault
        return whole.model_dump(mode="json")

    return trace
