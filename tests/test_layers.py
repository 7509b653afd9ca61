"""Imports point one way, libraries stay in their homes, and files and functions stay small: read from the source, not from memory."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.source import parsed

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [*sorted((ROOT / "specviz").rglob("*.py")), ROOT / "app.py"]

# Where a library may be imported: folders or files of the package, or files beside it.
HOMES = {
    "torch": ("engine/", "models/", "training/", "analysis/hardware.py"),
    "transformers": ("engine/", "models/", "training/"),
    "safetensors": ("engine/", "models/", "training/"),
    "huggingface_hub": ("models/",),
    "plotly": ("figures/",),
    "networkx": ("figures/",),
    "gradio": ("ui/", "app.py"),
}
# ui → figures → analysis → trace; ui → engine → trace; training → engine
NEVER = {
    "engine": {"figures", "ui", "training", "analysis"},
    "analysis": {"figures", "ui", "engine", "training", "models"},
    "figures": {"engine", "ui", "models", "training"},
    "models": {"figures", "ui", "training", "analysis"},
    "training": {"figures", "ui"},
}
PLAIN_DATA = {"trace.py", "step.py", "config.py", "notation.py", "i18n.py"}  # import nothing of specviz but each other
FILE_LINES, FUNCTION_LINES, BUILDER_LINES, ENGINE_MEDIAN = 300, 80, 120, 12


def inner(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removeprefix("specviz/")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, dotted, wherever the import stands."""
    tree = parsed(path)
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1], *filter(None, [node.module])] if node.level else [node.module or ""]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def interface(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods that others can call; not those inside functions."""
    tree = parsed(path)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        yield from (
            node for node in scope.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
        )


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=inner)
def test_libraries_stay_in_their_homes(path):
    strays = [name for name in imports(path) for homes in [HOMES.get(name.split(".")[0])] if homes and not inner(path).startswith(homes)]
    assert not strays


@pytest.mark.parametrize("path", SOURCES, ids=inner)
def test_imports_point_one_way(path):
    folder = inner(path).split("/")[0]
    targets = {name.split(".")[1] for name in imports(path) if name.startswith("specviz.") and name.count(".")}
    assert not targets & NEVER.get(folder, set())
    if inner(path) in PLAIN_DATA:
        assert targets <= {name.removesuffix(".py") for name in PLAIN_DATA}


@pytest.mark.parametrize("path", SOURCES, ids=inner)
def test_files_and_functions_are_small(path):
    budget = BUILDER_LINES if inner(path).startswith("ui/") else FUNCTION_LINES
    assert {node.name: length(node) for node in functions(path) if length(node) > budget} == {}
    assert path.read_text(encoding="utf-8").count("\n") <= (40 if path.name == "app.py" else FILE_LINES)


@pytest.mark.parametrize("path", SOURCES, ids=inner)
def test_everything_public_is_explained_and_typed(path):
    for node in interface(path):
        arguments = [a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
        assert ast.get_docstring(node), f"{node.name} has no docstring"
        assert [a.arg for a in arguments if a.annotation is None] == [], f"{node.name} lacks types"


@pytest.mark.parametrize("path", SOURCES, ids=inner)
def test_shapes_can_be_checked(path):
    """jaxtyping reads annotations as they are: a module that has turned them into strings would silently go unchecked."""
    names = set(imports(path))
    assert not ("__future__.annotations" in names and any(name.startswith("jaxtyping") for name in names))


def test_the_engine_is_made_of_small_functions():
    assert median(length(node) for path in SOURCES if inner(path).startswith("engine/") for node in functions(path)) <= ENGINE_MEDIAN


def test_the_rules_see_what_they_forbid(tmp_path, monkeypatch):
    """The tests above can fail: a file that breaks them is found."""
    monkeypatch.setattr("tests.test_layers.ROOT", tmp_path)
    bad = tmp_path / "specviz" / "figures" / "bad.py"
    bad.parent.mkdir(parents=True)
    bad.write_text("def f():\n    import torch\n    from specviz.engine import loop\n    from ..ui import build\n")
    assert set(imports(bad)) == {"torch", "specviz.engine.loop", "specviz.ui.build"}
    with pytest.raises(AssertionError):
        test_libraries_stay_in_their_homes(bad)
    with pytest.raises(AssertionError):
        test_imports_point_one_way(bad)
    with pytest.raises(AssertionError):
        test_everything_public_is_explained_and_typed(bad)
