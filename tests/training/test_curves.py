import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specviz.training import curves, loop

SVG = "{http://www.w3.org/2000/svg}"


def entry(step: int, looked: bool = False, **losses: float) -> loop.Entry:
    held_out = {"text_accuracies": [[0.1 * step, 0.1], [0.05 * step, 0.1]], "kl": 0.01 * step} if looked else None
    return loop.Entry(step=step, done=step / 10, seconds=step, tokens=100 * step, losses=losses, held_out=held_out)


def logged(folder: Path, *entries: loop.Entry) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / loop.LOG).write_text("".join(json.dumps(dataclasses.asdict(one)) + "\n" for one in entries), encoding="utf-8")
    return folder


RUN = [entry(step, step % 2 == 0, LM=3 / step, **{"head 1": 5 / step, "head 2": 6 / step}) for step in range(1, 9)]


def lines(path: Path) -> dict[str, str]:
    """The drawn lines by id, with their colours and dashes."""
    groups = [group for group in ElementTree.parse(path).iter(f"{SVG}g") if str(group.get("id")).startswith(("loss-", "held-out-"))]
    return {str(group.get("id")): next(group.iter(f"{SVG}path")).get("style", "") for group in groups}


def test_the_picture_has_a_line_for_each_loss_and_each_head(tmp_path: Path):
    path = curves.draw(logged(tmp_path, *RUN))
    assert path == tmp_path / "curves.svg"
    found = lines(path)
    assert list(found) == ["loss-0", "loss-1", "loss-2", "held-out-0", "held-out-1", "held-out-2"]
    assert len(set(list(found.values())[:3])) == 3  # told apart by colour and by dashes
    text = path.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in ("LM", "head 1", "head 2", "head 1, top 1", "head 2, top 1", "kl", "loss, nats"))


def test_the_same_log_gives_the_same_bytes(tmp_path: Path):
    one, other = (curves.draw(logged(tmp_path / name, *RUN)).read_bytes() for name in ("a", "b"))
    assert one == other != curves.draw(logged(tmp_path / "c", *RUN[:-1])).read_bytes()
    assert str(tmp_path).encode() not in one


@pytest.mark.parametrize("entries", [[], [entry(1)], [entry(1, LM=2.0)], [entry(2, True, LM=2.0)]])
def test_a_run_of_no_or_one_entry_has_a_picture_too(entries: list[loop.Entry], tmp_path: Path):
    found = lines(curves.draw(logged(tmp_path, *entries)))
    assert len(found) == sum(len(one.losses) + 3 * bool(one.held_out) for one in entries)


def test_a_point_alone_is_seen(tmp_path: Path):
    path = curves.draw(logged(tmp_path, entry(2, True, LM=2.0)))
    groups = [group for group in ElementTree.parse(path).iter(f"{SVG}g") if group.get("id") == "loss-0"]
    assert list(groups[0].iter(f"{SVG}use"))  # its marker
