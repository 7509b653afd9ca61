"""What the tree lab's page may ask: anything may come in, and every refusal is one sentence."""

import json
from pathlib import Path

import pytest

from specviz.config import DecodeConfig, choices_text
from specviz.engine.tree import expected_tokens, full_shape, sparse_shape
from specviz.i18n import LANGUAGES, t
from specviz.models import own
from specviz.models.catalog import find
from specviz.models.embedded import sha256
from specviz.trace import ModelInfo, Trace
from specviz.ui import record
from specviz.ui.tabs import lab, trees
from tests.builders import make_trace
from tests.ui.own_heads import write_heads

CHAIN = "[[0],[0,0],[0,0,0]]"


def error(answer: dict) -> str:
    """The sentence of a refusal; it exists in both languages."""
    fault = answer["error"]
    assert all(t(lang, fault["key"], **fault["args"]) for lang in LANGUAGES)
    return t("en", fault["key"], **fault["args"])


def recorded() -> Trace:
    return Trace.load(record.FOLDER / f"{lab.RECORDED}.json.gz")


def test_the_shipped_heads_grow_the_engines_tree() -> None:
    grown = lab.grow({"source": "medusa"})
    facts = json.loads((lab.SHIPPED / "medusa.json").read_text(encoding="utf-8"))
    assert grown["accuracies"] == facts["accuracies"] and grown["source"]["origin"] == "measured"
    assert grown["source"]["answer_tokens"] == facts["calibration"]["answer_tokens"]
    assert sorted(grown["order"][:64], key=lambda path: (len(path), path)) == list(sparse_shape(facts["accuracies"], 64))
    assert grown["expected"][63] == pytest.approx(expected_tokens(grown["order"][:64], facts["accuracies"]), abs=1e-6)
    assert all(later > before for before, later in zip(grown["expected"], grown["expected"][1:], strict=False))
    for horizon in lab.HORIZONS:
        assert len(grown["rows"][str(horizon)]) == 1 + min(horizon, len(grown["order"]))
    assert json.dumps(grown)


def test_assumed_accuracies_are_marked_so() -> None:
    grown = lab.grow({"source": "assumed", "profile": {"heads": 2, "first": 0.4, "by_head": 0.5, "by_rank": 0.5}})
    assert grown["source"]["origin"] == "assumed" and len(grown["accuracies"]) == 2
    assert grown["accuracies"][1][1] == pytest.approx(0.4 * 0.5 * 0.5)


def test_a_source_is_offered_once_it_is_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "SHIPPED", tmp_path)
    assert "train calibrate --method ngram" in error(lab.grow({"source": "ngram"}))
    (tmp_path / "draft.json").write_text('{"layers": [0]}')
    assert "Nobody has measured" in error(lab.grow({"source": "draft"}))
    (tmp_path / "ngram.json").write_text('{"accuracies": [[0.2, 0.1], [0.5, 0.1]], "calibration": {"prompts": 3, "answer_tokens": 77}}')
    grown = lab.grow({"source": "ngram"})
    assert grown["known"] == ["ngram"] and grown["source"]["prompts"] == 3
    assert grown["order"][0] == (0,) and len(grown["order"]) == 6  # two ranks, and two under each


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for heads that are trained here."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path)
    return tmp_path


def test_all_heads_with_measured_accuracies_are_sources(shelf: Path) -> None:
    mine = write_heads(shelf / "embedded+20261130-101112", [[0.3, 0.1], [0.2, 0.1]])
    write_heads(shelf / "embedded+20261129-080910", [[0.2]], on="held-out texts")
    write_heads(shelf / "embedded+20261128-000000", [])  # nobody measured them
    write_heads(shelf / "embedded+20261127-000000", [[2.0]])  # no shares
    write_heads(shelf / "unheard-of+20261130-101112", [[0.3]])
    heads = lab.grow({"source": "medusa"})["heads"]
    shipped = [("embedded", "SmolLM2-135M-Instruct"), ("embedded-medusa2", "SmolLM2-135M-Instruct + Medusa-2")]
    assert [(one["name"], one["pair"]) for one in heads[:2]] == shipped and not any(one["when"] for one in heads[:2])
    assert [one["name"] for one in heads[2:]] == ["embedded+20261130-101112", "embedded+20261129-080910"]
    assert heads[2]["pair"] == "SmolLM2-135M-Instruct" and len(heads[2]["when"]) == len("11-30 10:11")
    grown = lab.grow({"source": "medusa", "pair": mine.name})
    assert grown["accuracies"] == [[0.3, 0.1], [0.2, 0.1]] and grown["source"]["pair"] == mine.name
    adapted = find("embedded-medusa2").adapter
    assert adapted is not None
    facts = json.loads((adapted / "medusa.json").read_text(encoding="utf-8"))
    assert lab.grow({"source": "medusa", "pair": "embedded-medusa2"})["accuracies"] == facts["accuracies"]
    on_texts = lab.grow({"source": "medusa", "pair": "embedded+20261129-080910"})["source"]
    assert "answer_tokens" not in on_texts  # what was measured on texts is not said to be of answers
    write_heads(mine, [[0.4]])  # trained further
    assert lab.grow({"source": "medusa", "pair": mine.name})["accuracies"] == [[0.4]]
    for gone in ("embedded+20261128-000000", "embedded+20261127-000000", "embedded+20200101-000000", "vicuna-7b", "../x"):
        assert "These heads are gone" in error(lab.grow({"source": "medusa", "pair": gone}))


def test_a_run_goes_with_the_accuracies_of_its_own_heads_only(shelf: Path) -> None:
    mine = write_heads(shelf / "embedded+20261130-101112", [[0.3]])
    sources = {
        pair: lab.grow({"source": "medusa", "pair": pair})["source"]["identity"] for pair in ("embedded", "embedded-medusa2", mine.name)
    }
    assert len(set(sources.values())) == 3
    shipped = lab.pace({"trace": None})["run"]["identity"]
    assert shipped == lab.judge({"tree": "[[0]]"})["run"]["identity"] == sources["embedded"]
    trace = make_trace(3, DecodeConfig(method="medusa", tree="2"))
    assert told(trace, sha256=sha256(mine / own.HEADS)) == sources[mine.name]
    assert told(trace, sha256="0" * 64) not in sources.values()
    (mine / own.HEADS).write_bytes(b"trained further")
    assert lab.grow({"source": "medusa", "pair": mine.name})["source"]["identity"] != sources[mine.name]


def told(trace: Trace, target: str = "SmolLM2-135M-Instruct", sha256: str | None = None) -> str:
    """What the lab calls the proposer of a run with this target and these weights of a proposer."""
    proposer = None if sha256 is None else ModelInfo(name="p", sha256=sha256, parameters=1)
    models = {"target": ModelInfo(name=target, sha256="7", parameters=1), "proposer": proposer}
    changed = trace.model_copy(update={"header": trace.header.model_copy(update=models)})
    return lab.pace({"trace": changed.to_json().decode()})["run"]["identity"]


def test_a_draft_and_lookup_are_measured_for_one_target() -> None:
    draft, weights = lab.grow({"source": "draft"})["source"]["identity"], sha256(lab.SHIPPED / "draft.safetensors")
    run = make_trace(3, DecodeConfig(method="draft"))
    assert told(run, sha256=weights) == draft
    assert draft not in (told(run, sha256="0" * 64), told(run, "SmolLM2-135M-Instruct + Medusa-2", weights))
    lookup = lab.grow({"source": "ngram"})["source"]["identity"]
    assert told(make_trace(3, DecodeConfig(method="ngram"))) == lookup
    assert told(make_trace(3, DecodeConfig(method="ngram", ngram_min=3))) != lookup
    assert told(make_trace(3, DecodeConfig(method="ngram")), "another") != lookup


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no tree in the choices format"),
        ("4x2x1", "no tree in the choices format"),
        ("sparse:9", "no tree in the choices format"),
        ("[]", "no tree in the choices format"),
        ("import os", "no tree in the choices format"),
        ("[[0],[0,", "A tree is written like"),
        ("[[1],[2,0]]", "has no parent"),
        ("[[0],[0]]", "twice"),
        ("[[0],[0,-1]]", "whole numbers"),
        ('[["0"]]', "whole numbers"),
        ("[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0]]", "5 deep, and there are accuracies for 4 levels"),
        (choices_text([(i,) for i in range(257)]), "1 to 256 candidates"),
        ("[" * 5000, "no tree in the choices format"),
        ("[" * 5000 + "0", "A tree is written like"),
        ("x" * 30_000, "no tree in the choices format"),
    ],
)
def test_what_is_no_tree_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    assert sentence in error(lab.arrange({"tree": text, "heads": 4}))


@pytest.mark.parametrize(
    "asked", [None, 7, [], {}, {"tree": None}, {"tree": 3, "heads": 4}, {"tree": CHAIN}, {"tree": CHAIN, "heads": "4"}]
)
def test_whatever_a_browser_sends_is_answered(asked: object) -> None:
    for answer in (lab.arrange, lab.judge, lab.grow):
        assert error(answer(asked)) if "tree" not in (asked if isinstance(asked, dict) else {}) or answer is not lab.judge else True
    assert error(lab.grow({"source": "medusa", "profile": {"heads": 99}}))
    assert error(lab.grow({"source": "medusa", "pair": ["embedded"]})) and error(lab.grow({"source": "medusa", "pair": "x" * 99}))


def test_the_form_of_the_medusa_repository_is_read_and_sorted() -> None:
    text = "mc_sim_7b_63 = [(1,), (0, 1), (0,), (0, 0),]"
    read = lab.arrange({"tree": text, "heads": 4})
    assert read["choices"] == ((0,), (1,), (0, 0), (0, 1))
    assert lab.arrange({"tree": choices_text(read["choices"]), "heads": 4}) == read
    assert len(read["rows"]) == 5


def test_the_recorded_run_on_its_own_tree_is_itself() -> None:
    trace = recorded()
    shape = max((trees_of(step, trace) for step in trace.steps), key=len)
    judged = lab.judge({"tree": choices_text(shape)})
    assert judged["judged"] == judged["own"] == [len(step.emitted) for step in trace.steps]
    assert judged["mean"] == pytest.approx(len(trace.token_ids) / len(trace.steps))
    assert sum(judged["accepted"].values()) == sum(token.node is not None for step in trace.steps for token in step.emitted)


def trees_of(step: object, trace: Trace) -> list[tuple[int, ...]]:
    return [path for path in lab.trees.rank_paths(step, trace.header.config) if path]


def test_a_smaller_tree_commits_what_greedy_verification_says() -> None:
    """By hand: walk from the root as long as the target's argmax is a candidate of the smaller tree."""
    trace = recorded()
    shape = [(0,), (1,), (0, 0), (1, 0)]
    expected = []
    for step in trace.steps:
        paths = lab.trees.rank_paths(step, trace.header.config)
        node, length = 0, 1
        while True:
            passed = [
                i
                for i, other in enumerate(step.tree)
                if i and other.parent == node and other.token_id == step.rows[node].argmax and paths[i] in shape
            ]
            if not passed:
                break
            node, length = passed[0], length + 1
        expected.append(min(length, len(step.emitted)) if step.dropped else length)
    judged = lab.judge({"tree": choices_text(shape)})
    assert judged["judged"] == expected
    assert 1 <= judged["mean"] <= judged["own_mean"]


def test_what_was_not_recorded_is_not_judged() -> None:
    asked = {"tree": "[[0],[9],[9,9],[9,9,9]]", "trace": None}
    assert "never proposed [9,9]" in error(lab.judge(asked)) or "never proposed [9,9,9]" in error(lab.judge(asked))


def test_a_run_from_the_player_is_judged_and_timed() -> None:
    trace = make_trace(6, DecodeConfig(method="medusa", rule="typical", tree="3x2", temperature=1.0))
    text = trace.to_json().decode()
    judged = lab.judge({"tree": choices_text(full_shape((3, 2))), "trace": text})
    assert judged["judged"] == judged["own"] and judged["run"]["rule"] == "typical"
    assert (judged["run"]["candidates"], judged["run"]["steps"]) == (9, 6)
    smaller = lab.judge({"tree": "[[0]]", "trace": text})
    assert max(smaller["judged"]) <= 2
    timed = lab.pace({"trace": text})
    assert timed["model"]["verify"] and timed["model"]["once"] and timed["run"]["device"] == trace.header.device_name
    assert lab.pace({"trace": make_trace(3).to_json().decode()})["model"] is None  # a draft's passes are not those of heads
    assert error(lab.judge({"tree": "[[0]]", "trace": "{}"})) and error(lab.judge({"tree": "[[0]]", "trace": 3}))


def test_an_error_of_ours_is_logged_and_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(lab, "node_rows", fail)
    assert "written to its log" in error(lab.arrange({"tree": CHAIN, "heads": 4}))
    assert "broken" in caplog.text


def test_the_lab_can_say_whatever_it_may_be_told() -> None:
    texts = trees.SCRIPTS.options()["locales"]
    assert set(texts) == set(LANGUAGES)
    for lang in LANGUAGES:
        assert {"lab.title", "error.tree_hole", "error.tree_size", "player.tag_computed", "control.method_medusa"} <= set(texts[lang])
        assert not any(key.startswith("player.title") for key in texts[lang])  # the page carries the player's texts once
