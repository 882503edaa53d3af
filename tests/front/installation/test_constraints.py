"""constraints.txt: it pins every package that an installation brings, at versions for every Python that we admit."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.support.installation.requirements import installed_packages, reachable
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIRST_PYTHON = str(PROJECT["project"]["requires-python"]).removeprefix(">=") + ".0"
RANGES = {"triton"}  # torch's build with CUDA asks for one version, its CPU build for none


def asked_for() -> list[Requirement]:
    """The requirements of pyproject.toml: to run, to build and in every extra; and pip, which the Makefile brings."""
    project = PROJECT["project"]
    lines = [*project["dependencies"], *PROJECT["build-system"]["requires"], "pip"]
    lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    return [found for found in map(Requirement, lines) if found.name != "seqtune"]


PINS = {canonicalize_name(line.name): line for line in map(Requirement, (
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")))}


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
    known = {name: installed[name] for name, pin in PINS.items()
             if name in installed and pin.specifier.contains(installed[name].version, prereleases=True)}
    assert known
    assert [name for name, package in known.items() if not SpecifierSet(
        str(package.metadata.json.get("requires_python", ""))).contains(FIRST_PYTHON)] == []
