"""What a fresh clone stands on: requirements, commands, README, container, and the rule that browser tests must not go missing."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from specviz.cli import app
from tests.source import parsed

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONAL = {"spaces"}  # imported where it is there
PACKAGE_OF = {"yaml": "pyyaml"}


def requirements(name: str) -> list[Requirement]:
    lines = (ROOT / name).read_text().splitlines()
    return [Requirement(line.split("  #")[0]) for line in lines if line and not line.startswith(("#", "-r"))]


def pinned() -> dict[str, str]:
    return {canonicalize_name(r.name): next(iter(r.specifier)).version for r in requirements("constraints.txt")}


def test_every_requirement_is_pinned_to_a_version_in_its_range():
    for requirement in requirements("requirements.txt") + requirements("requirements-dev.txt"):
        assert requirement.specifier.contains(pinned()[canonicalize_name(requirement.name)]), requirement


def test_constraints_hold_on_every_platform():
    for requirement in requirements("constraints.txt"):
        assert str(requirement.specifier).startswith("=="), requirement
        assert "+" not in str(requirement.specifier) and requirement.url is None, requirement
    assert pinned()["torch"] == "2.13.0"
    assert not {"pip", "setuptools", "wheel", "specviz"} & pinned().keys()


def test_the_program_imports_only_what_it_requires():
    required = {canonicalize_name(r.name) for r in requirements("requirements.txt")}
    for path in [*(ROOT / "specviz").rglob("*.py"), ROOT / "app.py"]:
        for node in ast.walk(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for name in {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - OPTIONAL - {"specviz"}:
                assert canonicalize_name(PACKAGE_OF.get(name, name)) in required, f"{path.relative_to(ROOT)} imports {name}"


def commands(group: typer.Typer) -> dict[str, set[str]]:
    """Every command of the command line with its options."""
    found = {}
    click = typer.main.get_command(group)
    for name, command in click.commands.items():
        for inner, leaf in getattr(command, "commands", {"": command}).items():
            found[f"{name} {inner}".strip()] = {option for parameter in leaf.params for option in parameter.opts}
    return found


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_documented_commands_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    known, targets = commands(app), set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"^make (?:\w+=\S+ )?([a-z]+)", text, re.M)) <= targets
    for line in re.findall(r"-m specviz ([^#\n`]*)", text):
        command = next(known[key] for key in sorted(known, key=len, reverse=True) if line.startswith(key))
        assert set(re.findall(r"--[a-z-]+", line)) <= command, line


def test_the_two_commands_stand_in_the_first_screen():
    shown = README.split("---", 2)[2].splitlines()[:20]
    assert any(line.startswith("make run") for line in shown)
    assert any(line.startswith("make test") for line in shown)


def test_linked_files_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), link


def test_the_file_map_is_true():
    folder = ""
    for line in README.split("## Where things are")[1].split("```")[1].strip().splitlines():
        names = line[:23].split()
        if not line.startswith(" ") and line.rstrip().endswith("/"):
            folder = names[0]
        for name in names:
            assert (ROOT / (folder if line.startswith(" ") else "") / name).exists(), name


def test_the_space_header_agrees_with_what_is_installed():
    header = yaml.safe_load(README.split("---")[1])
    assert header["sdk"] == "gradio"
    assert header["sdk_version"] == pinned()["gradio"]
    assert tuple(map(int, header["python_version"].split("."))) >= (3, 11)
    assert (ROOT / header["app_file"]).exists()
    assert len(header["short_description"]) <= 60


def test_the_container_runs_as_a_user_and_gets_what_it_needs():
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER user$", text, re.M) and "--uid 1000" in text
    assert "EXPOSE 7860" in text and "GRADIO_SERVER_NAME=0.0.0.0" in text and "ARG DEVICE=cpu" in text
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not {"specviz", "assets", "app.py", "requirements.txt", "constraints.txt"} & set(ignored)
    assert text.index("COPY --chown=user requirements.txt") < text.index("COPY --chown=user . .")


def test_make_knows_what_to_do():
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    for target in ("run", "test", "check", "bench", "traces"):
        done = subprocess.run([make, "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_continuous_integration_is_a_program():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert "SPECVIZ_REQUIRE_BROWSER=1 make test" in script.read_text()


def test_no_file_names_the_host_of_a_package_index():
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js.", "download." + "pytorch", "js" + "delivr", "un" + "pkg.com"]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".txt", ".toml", ".json", ".js", ".css", ".html", ""} and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [host for host in hosts if host in text], name


@pytest.mark.parametrize(
    ("body", "required", "status", "line"),
    [
        ("pass", True, 0, "browser tests: 1 ran, 0 did not run"),
        ("pytest.skip('none')", False, 0, "browser tests: 0 ran, 1 did not run (no browser found)"),
        ("pytest.skip('none')", True, 1, "browser tests: 0 ran, 1 did not run"),
        (None, True, 1, "browser tests: 0 ran, 0 did not run"),
    ],
)
def test_browser_tests_that_did_not_run_are_counted(tmp_path, body, required, status, line):
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_sessionfinish, pytest_terminal_summary\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser: x\n")
    marked = "" if body is None else f"@pytest.mark.browser\ndef test_page():\n    {body}\n"
    (tmp_path / "test_it.py").write_text(f"import pytest\n{marked}def test_other():\n    pass\n")
    settings = {"PYTHONPATH": str(ROOT), "SPECVIZ_REQUIRE_BROWSER": "1" if required else "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert (done.returncode, [text for text in done.stdout.splitlines()[-4:] if line in text] != []) == (status, True), done.stdout
