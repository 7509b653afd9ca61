"""The one table of colours and signs, light and dark: figures name an entry ("var:accepted"), page and notebook look it up.

Okabe & Ito (2008) colours for the verdicts, each repeated by a second sign (symbol, dash, letter, underline), because colour is never
the only one. Marks keep at least 3:1 against the card they lie on, and every `*_text` colour, `ink` and `soft` at least 4.5:1.
"""

from dataclasses import asdict, dataclass

THEMES = ("light", "dark")
FONT = '"Inter","Segoe UI",system-ui,"Noto Sans CJK SC","Noto Sans SC",sans-serif'

# name: (light, dark)
COLOURS: dict[str, tuple[str, str]] = {
    "ink": ("#1d1c1a", "#eceae5"),
    "soft": ("#66635d", "#a9a59c"),
    "faint": ("#8d8980", "#7d7a73"),
    "line": ("#e4e1da", "#35343a"),
    "grid": ("#efede8", "#2a2a30"),
    "edge": ("#cfcbc2", "#4a4951"),
    "paper": ("#fbfaf7", "#141417"),
    "card": ("#ffffff", "#1c1c21"),
    "accent": ("#3d5a99", "#8ea9e6"),
    "accent_pale": ("#c9d3e8", "#3a4766"),
    "accent_wash": ("#eef2fa", "#262c3b"),
    "p": ("#2b6f77", "#5fb3bd"),
    "q": ("#8a63a8", "#b794d6"),
    "residual": ("#b97800", "#e0a63a"),
    "accepted": ("#009e73", "#2fc79a"),
    "accepted_text": ("#007a59", "#3fd0a4"),
    "refused": ("#d55e00", "#f0843c"),
    "refused_text": ("#b34f00", "#f59150"),
    "recovered": ("#b97800", "#e0a63a"),
    "recovered_text": ("#8f5d00", "#e6b04d"),
    "bonus": ("#0072b2", "#56b4e9"),
    "bonus_text": ("#0069a5", "#63bbec"),
    "plain": ("#66635d", "#a9a59c"),
    "plain_text": ("#66635d", "#a9a59c"),
    "pending": ("#8d8980", "#8b8880"),
    "pending_text": ("#66635d", "#a9a59c"),
    "untested": ("#8d8980", "#8b8880"),
    "untested_text": ("#66635d", "#a9a59c"),
    "root": ("#1d1c1a", "#eceae5"),
    "root_text": ("#1d1c1a", "#eceae5"),
    "roof": ("#1d1c1a", "#eceae5"),
    "datasheet": ("#8d8980", "#8b8880"),
    "fault": ("#b3261e", "#ff8a80"),
    "propose": ("#8a63a8", "#b794d6"),
    "verify": ("#2b6f77", "#5fb3bd"),
    "commit": ("#8d8980", "#8b8880"),
    "record": ("#8d8980", "#8b8880"),
}


@dataclass(frozen=True)
class Sign:
    """How a state of a node or a kind of a token looks. `symbol` and `dash` are plotly's words, `letter` stands in text and tables,
    `underline` is CSS (border-bottom-style), `size` and `width` are pixels of the mark and of the edge that leads to it. `fill`,
    `colour` and `text` name the colours of the mark's inside, of its line and edge, and of a label beside it."""

    fill: str
    colour: str
    text: str
    symbol: str
    dash: str
    letter: str
    underline: str
    size: float
    width: float


# every state of a candidate ("pending" until it is judged, "hidden" until it exists) and every kind of a token
STATES: dict[str, Sign] = {
    "root": Sign("root", "root", "ink", "circle", "solid", "■", "none", 12, 1.2),
    "pending": Sign("card", "pending", "soft", "circle", "solid", "○", "none", 9, 1.2),
    "accepted": Sign("accepted", "accepted", "ink", "circle", "solid", "●", "solid", 12, 2.4),
    "refused": Sign("refused", "refused", "refused_text", "x-thin", "4px,3px", "✕", "none", 9, 1.7),
    "untested": Sign("card", "untested", "soft", "circle", "solid", "○", "none", 8, 1.2),
    "recovered": Sign("recovered", "recovered", "recovered_text", "diamond", "2px,2px", "◆", "dashed", 12, 2.0),
    "bonus": Sign("bonus", "bonus", "bonus_text", "star", "solid", "★", "double", 14, 2.0),
    "plain": Sign("plain", "plain", "ink", "square", "solid", "▪", "none", 10, 1.6),
    "hidden": Sign("card", "edge", "soft", "circle", "solid", "", "none", 0, 0),
}


def table() -> dict[str, object]:
    """The palette as the player reads it: {"colours": {theme: {name: hex}}, "states": {state: sign}, "font": css}."""
    colours = {theme: {name: pair[i] for name, pair in COLOURS.items()} for i, theme in enumerate(THEMES)}
    return {"colours": colours, "states": {state: asdict(sign) for state, sign in STATES.items()}, "font": FONT}


def colour(name: str, theme: str = "light") -> str:
    """The hex value of a palette name; raises KeyError for a name or a theme that does not exist."""
    return dict(zip(THEMES, COLOURS[name], strict=True))[theme]


def css() -> str:
    """The colours as CSS custom properties (--sv-ink …): light ones on .specviz, dark ones under .dark."""
    light, dark = ("".join(f"--sv-{name.replace('_', '-')}:{pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1))
    return f".specviz{{{light}}}\n.dark .specviz,.specviz.dark{{{dark}}}\n"
