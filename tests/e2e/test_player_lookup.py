"""Where a proposal was copied from: marked in the text, said in words, and said too where there was nothing to copy."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser

import specviz
from specviz.trace import Step, Trace
from tests.builders import make_trace
from tests.e2e.player import Stage, stage
from tests.fakes import LetterTokenizer, table_pair

pytestmark = pytest.mark.browser

MARKED = "(name) => [...document.querySelectorAll('.sv-flow .' + name)].map((part) => part.textContent).join('')"
LINE = "#tree .sv-lookup"
IN_VIEW = """() => {
  const [flow, at] = ['.sv-flow', '.sv-flow .sv-source'].map((name) => document.querySelector(name).getBoundingClientRect());
  return at.top >= flow.top - 1 && at.bottom <= flow.bottom + 1;
}"""


class Wrapped(LetterTokenizer):
    """Letters, in a template that begins and ends with "fe"."""

    chat_template = "fe…fe"

    def apply_chat_template(self, conversation: list, *, tokenize: bool, add_generation_prompt: bool) -> str:
        return f"fe{conversation[0]['content']}fe"


def lookup(prompt: str, seed: int = 0, chat: bool = False, **parameters: object) -> Trace:
    """A real run of the toy target; letter i is token i."""
    pair = replace(table_pair(seed), tokenizer=Wrapped())
    return specviz.run(pair, prompt, method="ngram", chat=chat, baseline=False, max_new_tokens=40, temperature=1.0, **parameters)


def letters(trace: Trace, start: int, end: int) -> str:
    ids = [*trace.header.prompt_ids, *trace.token_ids]
    return LetterTokenizer().decode(ids[start:end])


def first(trace: Trace, wanted: object) -> Step:
    return next(step for step in trace.steps if wanted(step))


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def test_the_matched_tokens_their_earlier_place_and_what_was_copied_are_marked(window: Stage) -> None:
    trace = lookup("abcdeabcabd", k=4, ngram_max=3)
    window.show(trace)
    sides = set()
    for step in trace.steps:
        window.do("i => specviz.seek(i, 'propose')", step.index)
        if not step.matches:
            assert [window.page.evaluate(MARKED, name) for name in ("sv-matched", "sv-source", "sv-copied")] == ["", "", ""]
            continue
        [match] = step.matches
        behind = match.start + match.length
        assert window.page.evaluate(MARKED, "sv-matched") == letters(trace, step.context - match.length, step.context)
        source, copied = letters(trace, match.start, behind), letters(trace, behind, behind + match.node)
        overlap = behind + match.node > step.context - match.length  # a token may be all of them at once
        assert window.page.evaluate(MARKED, "sv-source") == source or overlap
        assert window.page.evaluate(MARKED, "sv-copied") == copied
        side = "answer" if match.start >= len(trace.header.prompt_ids) else "prompt"
        sides.add(side)
        assert f"{match.length}-gram at the end" in window.text(LINE)
        assert f"same at token {match.start + 1}, in the {side}" in window.text(LINE)
    assert sides == {"prompt", "answer"}, "both were put to the test"
    assert not window.complaints


def test_the_marks_differ_by_more_than_colour(window: Stage) -> None:
    trace = lookup("abcdabcab")
    window.show(trace)
    window.do("i => specviz.seek(i)", first(trace, lambda step: step.matches).index)
    look = "(name) => getComputedStyle(document.querySelector('.sv-lookup .' + name)).borderTopStyle"
    assert [window.page.evaluate(look, name) for name in ("sv-matched", "sv-source", "sv-copied")] == ["solid", "double", "dashed"]


def test_no_match_is_said_where_the_tree_would_be(window: Stage) -> None:
    trace = lookup("abc", ngram_min=3)
    index = first(trace, lambda step: step.matches == ()).index
    window.show(trace)
    window.do("i => specviz.seek(i)", index)
    assert window.text(LINE).startswith("No match: the 3-gram at the end of the text stands nowhere earlier")
    assert window.text("#tree .sv-caption") == "plain decoding: no candidates"
    window.show(trace, language="zh")
    window.do("i => specviz.seek(i)", index)
    assert window.text(LINE).startswith("无匹配：文本末尾的 3 个词元")


def test_other_methods_say_nothing_of_it(window: Stage) -> None:
    window.show(make_trace(3))
    assert not window.page.locator(LINE).is_visible()
    assert window.page.locator(".sv-flow :is(.sv-matched, .sv-source, .sv-copied)").count() == 0


def test_a_match_in_the_chat_template_is_said_in_words(window: Stage) -> None:
    trace = lookup("cd", chat=True)  # the template ends as it begins
    window.show(trace)
    window.do("specviz.seek(0)")
    assert (trace.header.prompt_start, trace.steps[0].matches[0].start) == (2, 0)
    assert "2-gram at the end (chat template)" in window.text(LINE)
    assert "same at token 1, in the chat template" in window.text(LINE)
    assert window.page.locator(f"{LINE} button").is_disabled(), "there is nothing to show"
    assert window.page.evaluate(MARKED, "sv-copied") == "cd", "what followed stands in the prompt on show"
    assert window.page.evaluate(MARKED, "sv-source") == ""
    unplaced = trace.model_copy(update={"header": trace.header.model_copy(update={"prompt_start": None, "prompt_texts": None})})
    window.show(unplaced)
    window.do("specviz.seek(0)")
    assert "in what the model was given" in window.text(LINE)


def test_a_prompt_with_wide_characters_is_marked_at_the_right_letters(window: Stage) -> None:
    trace = lookup("abcdabcab")
    before, prompt = "🙂🙂", "a👩‍👩‍👧b"
    texts = (before, "a", "👩‍👩‍👧", "b")
    header = trace.header.model_copy(
        update={"prompt": prompt, "prompt_texts": texts, "prompt_ids": (0, 0, 1, 2), "prompt_start": len(before)}
    )
    [step] = [first(trace, lambda step: step.matches)]
    match = step.matches[0].model_copy(update={"start": 2, "length": 1, "node": 1})
    moved = step.model_copy(update={"index": 0, "context": 9, "matches": (match,)})
    window.show(trace.model_copy(update={"header": header, "steps": (moved,)}))
    assert window.page.evaluate(MARKED, "sv-source") == "👩‍👩‍👧"
    assert window.page.evaluate(MARKED, "sv-copied") == "b"


def test_a_place_in_the_folded_part_of_a_long_prompt_is_brought_into_view(window: Stage) -> None:
    trace = lookup("bcd" + "ae" * 200 + "bc", k=2, ngram_max=2)
    window.show(trace)
    window.do("specviz.seek(0)")
    assert trace.steps[0].matches[0].start == 0
    assert window.page.evaluate(MARKED, "sv-source") == ""
    window.page.click(f"{LINE} button")
    window.settle()
    assert window.page.evaluate(MARKED, "sv-source") == "bc"
    assert window.page.evaluate(IN_VIEW)


def test_a_place_further_up_is_brought_into_view(window: Stage) -> None:
    trace = lookup("abc" * 60, k=1)
    step = trace.steps[-1] if trace.steps[-1].matches else first(trace, lambda step: step.matches)
    window.show(trace)
    window.do("i => specviz.seek(i)", step.index)
    window.page.click(f"{LINE} button")
    window.settle()
    assert window.page.evaluate(IN_VIEW)


def test_each_branch_of_a_tree_shows_its_own_place(window: Stage) -> None:
    trace = lookup("abcabdabeab", tree="3x1", ngram_max=2)
    [step] = trace.steps[:1]
    assert len(step.matches) == 3
    window.show(trace)
    seen = []
    for match in step.matches:
        window.do("i => specviz.seek(0, 'verify') || specviz.select(i)", match.node)
        seen.append(window.page.evaluate(MARKED, "sv-copied"))
        assert f"{len(seen)} of 3: same at token {match.start + 1}, in the prompt" in window.text(LINE)
    assert seen == ["ea", "da", "ca"]
    window.do("i => specviz.player.store.point(i)", step.matches[0].node)
    assert window.page.evaluate(MARKED, "sv-copied") == "ea", "the pointer decides while it is on a candidate"


def test_a_text_that_another_rule_would_not_have_written_is_not_marked(window: Stage) -> None:
    trace = lookup("abcdeabcabd", k=4, ngram_max=3, rule="rejection")
    window.show(trace)
    window.do("specviz.rejudge({ rule: 'greedy' })")
    differs = window.state()["differs"]
    later = next(step for step in trace.steps if step.matches and step.index > differs >= 0)
    window.do("i => specviz.seek(i)", later.index)
    assert window.page.evaluate(MARKED, "sv-copied") == ""
    window.do("specviz.rejudge({ rule: 'rejection' })")
    assert window.page.evaluate(MARKED, "sv-copied") != ""
