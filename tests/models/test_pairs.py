"""Whether two vocabularies fit, and the reason given."""

from pathlib import Path

import pytest

from specviz.i18n import Fault
from specviz.models.pairs import check_pair, compare, read_vocabulary
from tests.models.tiny import MERGES, write_llama, write_tokenizer


@pytest.fixture
def model(tmp_path: Path):
    """A function that writes a model and returns its folder."""

    def write(name: str, rows: int = 100, **tokenizer: object) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        write_tokenizer(folder, **tokenizer)
        write_llama(folder, rows, layers=1)
        return folder

    return write


def test_equal(model):
    fit = check_pair(str(model("a")), str(model("b")))
    assert fit.fits
    assert fit.keys == ("pair.same",)
    assert "100 tokens" in fit.sentence()


def test_other_padding_fits_and_says_that_padding_is_masked(model):
    fit = check_pair(str(model("a", rows=104)), str(model("b", rows=128)))
    assert fit.fits
    assert fit.keys == ("pair.padding_differs",)
    assert "128 and 104" in fit.sentence()
    assert "masked" in fit.sentence()


@pytest.mark.parametrize(
    ("draft", "key", "words"),
    [
        (
            {"order": -1},
            "pair.vocabulary_differs",
            "94 tokens have another id or exist in only one of them, the first being ' ' (id 3 in the target, 97 in",
        ),
        ({"extra": ("<extra>",), "rows": 101}, "pair.vocabulary_differs", "1 tokens"),
        ({"merges": MERGES[::-1]}, "pair.merges_differ", "merge rules"),
        ({"rows": 99}, "pair.too_few_rows", "99 rows"),
    ],
)
def test_misfits(model, draft, key, words):
    fit = compare(read_vocabulary(model("a")), read_vocabulary(model("b", **draft)))
    assert not fit.fits
    assert fit.keys == (key,)
    assert words in fit.sentence()


def test_another_end_of_text_is_no_obstacle(model):
    fit = check_pair(str(model("a")), str(model("b", eos="<unk>")))
    assert fit.fits
    assert "eos_token" in fit.sentence()


@pytest.mark.parametrize("name", ["no/such/folder/anywhere", "nothing", "./missing"])
def test_a_name_that_is_nothing(model, name):
    with pytest.raises(Fault, match="neither a pair"):
        check_pair(str(model("a")), name)


def test_a_folder_without_a_model(tmp_path, model):
    (tmp_path / "empty").mkdir()
    with pytest.raises(Fault, match="holds no model"):
        check_pair(str(model("a")), str(tmp_path / "empty"))


def test_a_hub_id_without_a_hub(model, offline):
    with pytest.raises(Fault, match="hub does not answer"):
        check_pair(str(model("a")), "nobody/no-such-model-here")
