"""The one decode loop: propose → verify → commit. Every method is a proposer and a rule; plain decoding is the empty proposal.

At every step: the cache holds the committed tokens but the last (the root); 1 to depth+1 tokens are emitted; nothing follows the
first end-of-sequence token; the budget is never overshot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.config import LONGEST_PROMPT, DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.memory import memory
from specviz.engine.proposers import draft, medusa
from specviz.engine.proposers.base import Committed, Proposer, clock, pass_of
from specviz.engine.proposers.ngram import NGram
from specviz.engine.proposers.plain import Plain
from specviz.engine.record import Round, step_of
from specviz.engine.rules import NEEDS, Judgement, judge, measure
from specviz.engine.sampling import warp
from specviz.engine.text import RunningText, TokenTexts
from specviz.engine.tree import TokenTree
from specviz.i18n import Fault
from specviz.trace import Baseline, Emitted, Ended, Pass, PassKind, Seconds, Step

BASELINE_TOKENS = 16


def proposer_of(pair: Pair, config: DecodeConfig) -> Proposer:
    """The proposer of a run; raises Fault where the pair lacks what the method needs."""
    if config.method == "ngram":
        return NGram(config, pair.eos_ids, pair.target.vocab_size, pair.target.device)
    if config.method == "draft":
        if pair.draft is None:
            raise Fault("error.no_draft", pair=pair.name)
        shape, ranked = draft.shape_of(config, pair)
        return draft.Draft(pair.draft, shape, pair.target.vocab_size, ranked)
    if config.method == "medusa":
        if pair.medusa is None:
            raise Fault("error.no_medusa", pair=pair.name)
        size = pair.target.vocab_size
        return medusa.Medusa(pair.medusa, medusa.shape_of(config, pair.medusa, size), size)
    return Plain()


def encode(pair: Pair, prompt: str, config: DecodeConfig) -> list[int]:
    """The prompt as token ids, in the model's chat template where `config.chat`; raises Fault for a prompt that cannot be taken."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise Fault("error.prompt_empty")
    if len(prompt) > LONGEST_PROMPT:
        raise Fault("error.prompt_characters", found=len(prompt), limit=LONGEST_PROMPT)
    prompt = prompt.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
    if config.chat:
        if not pair.tokenizer.chat_template:
            raise Fault("error.no_chat")
        message = [{"role": "user", "content": prompt}]
        prompt = pair.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    ids = pair.tokenizer.encode(prompt, add_special_tokens=not config.chat)
    limit = pair.target.max_context
    if len(ids) + config.max_new_tokens > limit:
        raise Fault("error.prompt_long", tokens=len(ids), limit=limit - config.max_new_tokens)
    return ids


class Decoding:
    """One run: its cache, its proposer, its generator. Never shared; `steps` is consumed once."""

    def __init__(self, pair: Pair, ids: list[int], config: DecodeConfig):
        self.pair, self.config, self.target = pair, config, pair.target
        self.proposer = proposer_of(pair, config)
        self.committed = Committed(list(ids), None, config, torch.Generator().manual_seed(config.seed))
        self.cache = self.target.new_cache()
        self.prompt_length, self.finished = len(ids), False
        self.texts = TokenTexts(pair.tokenizer)
        self.running = RunningText(pair.tokenizer, ids)

    def steps(self) -> Iterator[Step]:
        """Decode; yields the record of each step as soon as it is committed."""
        for index, done in enumerate(self.rounds()):
            yield step_of(done, index, self.config, self.texts)

    def rounds(self) -> Iterator[Round]:
        """Decode without recording; the first round carries the passes that read the prompt."""
        with memory(self.pair.device_name):
            prefill = self._prefill()
        while not self.finished:
            with memory(self.pair.device_name):
                done = self._round()
            yield replace(done, passes=(*prefill, *done.passes))
            prefill = ()

    def _prefill(self) -> tuple[Pass, ...]:
        """Read the prompt, but for its last token: the root of the first step."""
        ids = self.committed.ids
        if len(ids) == 1:
            return self.proposer.begin(ids)
        before = clock(self.target.device)
        self.committed.hidden = self.target.prefill(self.cache, torch.tensor(ids[:-1]))
        seconds = clock(self.target.device) - before
        return (pass_of("prefill", self.target.shape, len(ids) - 1, 0, seconds, scored=0), *self.proposer.begin(ids))

    def _round(self) -> Round:
        """Propose, verify, commit."""
        context = len(self.committed.ids)
        start = clock(self.target.device)
        proposal = self.proposer.propose(self.committed, self._depth())
        proposed = clock(self.target.device)
        tree = proposal.tree
        positions = self.cache.length + torch.tensor(tree.depths)
        output = self.target.forward(self.cache, torch.tensor(tree.tokens), positions, tree.mask())
        verified = clock(self.target.device)
        p = warp(output.logits, self.config, self.committed.ids, [tree.text(node) for node in range(len(tree))])
        u, v = torch.rand(2, len(tree), generator=self.committed.generator, dtype=torch.float64).to(p.device)
        rule = "greedy" if self.config.greedy else self.config.rule
        evidence = measure(tree, p, u, v, NEEDS[rule])
        judgement = judge(rule, evidence, self.config.epsilon, self.config.delta)
        emitted, dropped = self._commit(tree, judgement, output.hidden)
        committed = clock(self.target.device)
        kind: PassKind = "verify" if len(tree) > 1 else "plain"
        verify = pass_of(kind, self.target.shape, len(tree), context - 1, verified - proposed)
        seconds = Seconds(propose=proposed - start, verify=verified - proposed, commit=committed - verified)
        return Round(context, tree, p, u, v, evidence, judgement, emitted, dropped, (*proposal.passes, verify), seconds, proposal.matches)

    def _depth(self) -> int:
        """How deep a tree may be: with the extra token, a step must not pass the budget or the model's context."""
        length = len(self.committed.ids)
        remaining = self.prompt_length + self.config.max_new_tokens - length
        return min(remaining, self.target.max_context - length) - 1

    def _commit(self, tree: TokenTree, judgement: Judgement, hidden: Tensor) -> tuple[tuple[Emitted, ...], int]:
        """Append the accepted path and the extra token, up to the first end-of-sequence token; returns them, and how many were cut."""
        path = judgement.path
        tokens = [tree.tokens[node] for node in path] + [judgement.token_id]
        ends = [place for place, token in enumerate(tokens) if token in self.pair.eos_ids]
        count = ends[0] + 1 if ends else len(tokens)
        self.committed.ids += tokens[:count]
        # The last token emitted is the next root: it stays out of the cache, and the hidden state before it is what heads read.
        kept = path[: count - 1]
        self.cache.keep(self.cache.length - len(tree), (0, *kept))
        self.proposer.keep(kept)
        self.committed.hidden = hidden[kept[-1] if kept else 0]
        length = len(self.committed.ids)
        full = length == self.prompt_length + self.config.max_new_tokens or length == self.target.max_context
        self.finished = bool(ends) or full
        emitted = [
            Emitted(token_id=token, text=self._text(token), kind=judgement.kind if node is None else "accepted", node=node)
            for token, node in zip(tokens[:count], (*path, None), strict=False)
        ]
        return tuple(emitted), len(tokens) - count

    def _text(self, token: int) -> str:
        return "" if token in self.pair.eos_ids else self.running.add(token)


def decode(pair: Pair, prompt: str, config: DecodeConfig) -> Iterator[Step]:
    """Decode `prompt`; raises Fault at once where the run makes no sense, before the first step is asked for."""
    return Decoding(pair, encode(pair, prompt, config), config).steps()


def baseline(pair: Pair, prompt: str, config: DecodeConfig) -> Baseline:
    """Measure plain decoding on the same prompt: at least 16 tokens, whatever ends the text."""
    plain = replace(config, method="plain", tree=None, rule="greedy" if config.greedy else "match", max_new_tokens=BASELINE_TOKENS)
    steps = list(decode(replace(pair, eos_ids=()), prompt, plain))
    passes = tuple(work for step in steps for work in step.passes if work.kind == "plain")
    return Baseline(
        seconds=tuple(step.seconds.decode for step in steps),
        passes=passes,
        token_ids=tuple(step.emitted[0].token_id for step in steps),
    )


def ended(steps: Sequence[Step], config: DecodeConfig, eos_ids: Sequence[int]) -> Ended:
    """Why a run is over."""
    if steps and steps[-1].emitted[-1].token_id in eos_ids:
        return "eos"
    count = sum(len(step.emitted) for step in steps)
    return "length" if count >= config.max_new_tokens else "stopped"
