"""Progress on the terminal."""

import pytest

from specviz import terminal
from specviz.terminal import amount_bar


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def test_where_there_is_no_terminal_progress_is_a_line_a_minute(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with amount_bar("cli.writing", 100_000) as show:
        show(40_000)  # was there before: no work of this call
        for second in range(1, 181):
            clock.now = float(second)
            show(40_000 + 50 * second)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "The model is writing its corpus 43,000 of 100,000 tokens, 50/s, about 19 min left",
        "The model is writing its corpus 46,000 of 100,000 tokens, 50/s, about 18 min left",
        "The model is writing its corpus 49,000 of 100,000 tokens, 50/s, about 17 min left",
    ]


def test_where_nothing_was_done_nothing_is_foretold(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with amount_bar("cli.writing", 1000) as show:
        clock.now = 61.0
        show(0)
    assert capsys.readouterr().err.endswith("0 of 1,000 tokens, 0/s, about ? min left\n")
