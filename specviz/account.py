"""A run as a terminal shows it: every candidate with its verdict and the arithmetic behind it, then the totals.

Signs repeat what colours say. Tokens are whatever a model wrote, so they are only ever appended as plain text, and characters that
would move the cursor or turn the writing direction are shown as signs.
"""

import unicodedata
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz.analysis.acceptance import acceptance
from specviz.analysis.quantities import Quantity, number
from specviz.analysis.remedies import remedies
from specviz.analysis.slow import causes, headline, ms, pace, why
from specviz.analysis.speed import speed
from specviz.analysis.typical import EmittedKL, emitted_kl
from specviz.analysis.verdicts import explain, explain_extra
from specviz.config import DecodeConfig
from specviz.i18n import t
from specviz.trace import Header, Match, Step, Trace

# Okabe–Ito, as on the page
STYLES = {
    "accepted": "#009E73",
    "refused": "#D55E00",
    "recovered": "#E69F00",
    "bonus": "#56B4E9",
    "plain": "default",
    "untested": "bright_black",
}
SIGNS = {"accepted": "●", "refused": "✕", "untested": "○", "recovered": "◆", "bonus": "★", "plain": "▪"}
SHOWN = 12  # untested candidates of a step beyond these are only counted


class Account:
    """Writes one run to a console in one language."""

    def __init__(self, console: Console, lang: str, config: DecodeConfig):
        self.console, self.lang, self.config = console, lang, config

    def say(self, key: str, style: str = "", **values: object) -> None:
        """One sentence of the catalogue."""
        self.console.print(Text(printable(t(self.lang, key, **values)), style))

    def opening(self, header: Header) -> None:
        """Who decodes, on what, and how."""
        config = self.config
        nobody = "account.lookup" if config.method == "ngram" else "account.nobody"
        proposer = header.proposer.name if header.proposer else t(self.lang, nobody)
        self.say("account.models", "bold", target=header.target.name, proposer=proposer)
        self.say("account.machine", "dim", device=header.device, name=header.device_name, dtype=header.dtype, threads=header.threads)
        values = {name: getattr(config, name) for name in ("method", "rule", "temperature", "top_p", "seed")}
        self.say("account.settings", "dim", shape=self._shape(), **values)
        if config.temperature == 0:
            self.say("account.shown", "dim")
        if not config.lossless:
            self.say("account.changes", STYLES["recovered"])

    def step(self, step: Step) -> None:
        """One step: its candidates, the token that no candidate proposed, and what was committed."""
        place = t(self.lang, "account.place", context=step.context, count=len(step.emitted))
        self.console.print(Text(f"\n{t(self.lang, 'account.step', index=step.index + 1)}  ", "bold").append(place, "not bold dim"))
        if step.matches is not None:
            self._looked_up(step.matches)
        shown = [node for node in range(1, len(step.tree)) if step.tree[node].verdict != "untested" or node <= SHOWN]
        for node in shown:
            self._candidate(step, node)
        if missing := len(step.tree) - 1 - len(shown):
            self.say("account.more", STYLES["untested"], count=missing)
        extra = explain_extra(step, self.config)
        kind = step.emitted[-1].kind if step.emitted[-1].node is None else "untested"
        self.console.print(Text(f"  {SIGNS[kind]} ", STYLES[kind]).append(printable(t(self.lang, extra.key, **extra.args))))
        self.console.print(Text("  → ", "dim").append_text(committed(step)))

    def totals(self, trace: Trace) -> None:
        """The text by kind, the counts, and the times against plain decoding, each with its formula."""
        self.console.print()
        self.console.print(Text().join(committed(step, printable) for step in trace.steps))
        self.console.print()
        tokens, ended = len(trace.token_ids), t(self.lang, f"account.{trace.ended}")
        self.say("account.tokens", "bold", tokens=tokens, steps=len(trace.steps), ended=ended)
        table = Table(box=None, show_header=False, pad_edge=False)
        figures = (*acceptance(trace.steps, self.config).quantities(), *speed(trace.steps, trace.header.baseline).quantities())
        for figure in figures:
            if figure.value is not None:
                formula = f"{t(self.lang, figure.formula)} ({t(self.lang, f'account.{figure.origin}')})"
                table.add_row(t(self.lang, figure.label), Text(self._value(figure), "bold"), Text(formula, "dim"))
        self.console.print(table)
        self._slow(trace)
        if not self.config.lossless:
            self.say("account.changes", STYLES["recovered"])
            self._changed(trace)

    def _changed(self, trace: Trace) -> None:
        """How far what was emitted is from p."""
        found = sum((emitted_kl(step, self.config) for step in trace.steps), EmittedKL())
        if found.per_token is not None:
            self.say("account.emitted_kl", STYLES["recovered"], value=number(found.per_token))

    def _slow(self, trace: Trace) -> None:
        """Why a run is slower than plain decoding: the numbers, the largest cause, and what would change it first of all."""
        found = why(trace.steps, trace.header)
        if found is None or pace(found) != "slower":
            return
        said, cause = headline(found), causes(found)[0]
        self.say(said.key, "bold", **said.args)
        name, because = t(self.lang, f"slow.{cause.name}"), t(self.lang, cause.why.key, **cause.why.args)
        self.say("account.slow_cause", name=name, ms=ms(cause.seconds), share=number(100 * cause.share, 2), why=because)
        change = remedies(found, trace.steps, trace.header)[0]
        self.say("account.slow_change", what=t(self.lang, change.key, **change.args))

    def _shape(self) -> str:
        config = self.config
        default = {"plain": "account.nobody", "medusa": "account.calibrated"}.get(config.method, "account.chain")
        named = "account.choices" if config.choices else "account.tree"
        shape = t(self.lang, named if config.tree else default, tree=config.tree, k=config.k, count=len(config.choices or ()))
        if config.method != "ngram":
            return shape
        match = t(self.lang, f"account.{config.ngram_match}")
        return t(self.lang, "account.ngram", shape=shape, high=config.ngram_max, low=config.ngram_min, match=match)

    def _looked_up(self, matches: Sequence[Match]) -> None:
        """Where the candidates were copied from, or that the last tokens stand nowhere before."""
        if not matches:
            return self.say("lookup.none", "dim", count=self.config.ngram_min)
        place, more = matches[0].start + 1, len(matches) - 1
        self.say("lookup.found_more" if more else "lookup.found", "dim", length=matches[0].length, place=place, more=more)

    def _candidate(self, step: Step, node: int) -> None:
        candidate, reason = step.tree[node], explain(step, node, self.config)
        line = Text("  " * step.depth(node)).append(f"{SIGNS[candidate.verdict]} ", STYLES[candidate.verdict])
        line.append(f"“{visible(candidate.text)}”", STYLES[candidate.verdict])
        line.append(f"  q {number(candidate.q)}  p {number(candidate.p)}  ", "dim")
        self.console.print(line.append(visible(t(self.lang, reason.key, **reason.args))))

    def _value(self, figure: Quantity) -> str:
        value = figure.value or 0.0
        if figure.label in ("acceptance.rate", "acceptance.yield", "acceptance.expected"):
            return t(self.lang, "account.percent", value=number(100 * value))
        if figure.label in ("speed.per_token", "speed.plain", "speed.record"):
            return t(self.lang, "account.milliseconds", value=number(1000 * value))
        return t(self.lang, "account.times", value=number(value)) if figure.label == "speed.speedup" else number(value)


def visible(text: str) -> str:
    """`text` on one line, with line breaks and tabs as signs."""
    return printable(text.replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥"))


def committed(step: Step, show: Callable[[str], str] = visible) -> Text:
    """The emitted tokens in the colours of their kinds, the bonus underlined."""
    underlined = {"bonus": " underline"}
    return Text().join(Text(show(token.text), STYLES[token.kind] + underlined.get(token.kind, "")) for token in step.emitted)


def printable(text: str) -> str:
    """`text` without the power to control a terminal: escape sequences, other control characters and changes of direction become signs."""
    return "".join(_sign(character) for character in text)


def _sign(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    if character == "\u200d":  # joins the parts of an emoji
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"
