"""Files for contributors: the workflow, the hooks and the issue forms parse, and what they call exists."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.documentation import check_command
from tests.support.paths import ROOT

yaml = pytest.importorskip("yaml")  # MkDocs brings it

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_workflow_runs_what_exists_on_every_python_and_system() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert [re.findall(r"3\.\d+$", line) for line in classifiers if "Python :: 3." in line] == [
        [version] for version in jobs["linux"]["strategy"]["matrix"]["python"]]
    assert jobs["elsewhere"]["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]
    commands = [shlex.split(step["run"]) for job in jobs.values() for step in job["steps"] if "run" in step]
    assert [".ci/run"] in commands
    for words in commands:
        if words[0].startswith("."):
            assert os.access(ROOT / words[0], os.X_OK), words
        elif words[:2] == ["python", "-c"]:
            compile(words[2], "<workflow>", "exec")
        else:
            check_command(words)


def test_the_hooks_call_programs_that_developers_have() -> None:
    hooks = [hook for repository in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {re.split(r"\W", line)[0] for line in project["optional-dependencies"]["dev"]}
    assert {hook["entry"].split()[0] for hook in hooks} <= {f".venv/bin/{name}" for name in installed}
    assert all(hook["language"] == "system" for hook in hooks)  # nothing is downloaded


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.stem)
def test_a_form_asks_for_the_devices_and_names_commands_that_exist(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    labels = [field["attributes"]["label"] for field in fields]
    assert any("`seqtune devices --json`" in label for label in labels)
    for command in re.findall(r"`seqtune ([^`]+)`", path.read_text()):
        if not command.startswith("--"):
            check_command(["seqtune", *command.replace("PROBLEM", "gemm m=1 n=1 k=1").split()])


def test_what_a_contributor_starts_from_exists() -> None:
    tables = [line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| a")]
    assert tables
    for line in tables:
        for name in re.findall(r"`([\w/.]+)`", line):
            assert (ROOT / name).exists(), name


def test_the_changelog_begins_with_what_is_unreleased_and_names_this_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", headings[1])
