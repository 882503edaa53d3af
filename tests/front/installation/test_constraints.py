"""constraints.txt: it pins every package that an installation brings, at versions for every Python that we admit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.support.installation.requirements import installed_packages, reachable
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIRST_PYTHON = str(PROJECT["project"]["requires-python"]).removeprefix(">=") + ".0"
RANGES = {"triton"}  # torch's build with CUDA asks for one version, its CPU build for none


def pins(text: str) -> dict[str, Requirement]:
    """The lines of a constraints file by name."""
    lines = (Requirement(line) for line in text.splitlines() if not line.startswith("#"))
    return {canonicalize_name(line.name): line for line in lines}


def asked_for() -> list[Requirement]:
    """The requirements of pyproject.toml: to run, to build and in every extra; and pip, which the Makefile brings."""
    project = PROJECT["project"]
    lines = [*project["dependencies"], *PROJECT["build-system"]["requires"], "pip"]
    lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    return [found for found in map(Requirement, lines) if found.name != "seqtune"]


def too_new(pinned: Mapping[str, Requirement], installed: Mapping[str, Distribution]) -> set[str]:
    """The pinned packages that need a later Python than the first one, where the pinned version is installed."""
    return {f"{name} needs Python {needed}" for name, pin in pinned.items()
            if name in installed and pin.specifier.contains(installed[name].version, prereleases=True)
            and (needed := str(installed[name].metadata.json.get("requires_python", "")))
            and not SpecifierSet(needed).contains(FIRST_PYTHON)}


PINS = pins((ROOT / "constraints.txt").read_text())


def test_every_package_that_an_installation_brings_is_pinned() -> None:
    names = reachable(asked_for(), installed_packages())
    assert len(names) >= 40  # what the base alone brings, and the names in the extras
    assert sorted(names - PINS.keys()) == []


def test_every_pin_names_one_version() -> None:
    for name, pin in PINS.items():
        operators = sorted(part.operator for part in pin.specifier)
        assert operators == (["<=", ">="] if name in RANGES else ["=="]), pin


def test_every_pin_holds_for_the_first_python_that_is_admitted() -> None:
    installed = installed_packages()
    assert re.fullmatch(r"3\.\d+\.0", FIRST_PYTHON)
    assert any(name in installed and pin.specifier.contains(installed[name].version) for name, pin in PINS.items())
    assert too_new(PINS, installed) == set()


def test_a_missing_pin_and_one_for_later_pythons_are_found(tmp_path: Path) -> None:
    later = f"Name: later\nVersion: 13.1\nRequires-Python: >={FIRST_PYTHON[:-1]}5\n"
    for name, metadata in (("later", later + "Requires-Dist: behind>=2\nRequires-Dist: unused; extra == 'more'\n"),
                           ("behind", "Name: behind\nVersion: 2.0\nRequires-Dist: further[more]\n"),
                           ("further", "Name: further\nVersion: 1.0\nRequires-Dist: last; extra == 'more'\n")):
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\n{metadata}")
    pinned, installed = pins("# ours\nlater==13.1\nbehind==2.0\n"), installed_packages(tmp_path)
    assert reachable([Requirement("later")], installed) - pinned.keys() == {"further", "last"}
    assert len(too_new(pinned, installed)) == 1
    assert not too_new(pins("later==12.3\n"), installed)  # another version is not judged by this one
