"""A member measures batches and has events; it needs no Ray for that. What does not fit its machine is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from seqtune.api.library import read_library
from seqtune.data.record import Status
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.libraries.bundle import bundle_of, package_digest, use_bundles
from seqtune.kernels.libraries.table import IN_USE, library_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends import discovery
from seqtune.tuner.fleet.batch import MeasuringBatch, Purpose
from seqtune.tuner.fleet.engine import Answered, Finished, Member
from seqtune.tuner.fleet.on_ray.cluster import FleetAddress
from seqtune.tuner.fleet.on_ray.member import OPEN, RayMember, hello
from seqtune.tuner.load import Load
from seqtune.tuner.measuring.timing import Options
from tests.support.libraries.mistakes import CORRECT, SOURCE

PROBLEM = Problem.make("gemm", m=16, n=16, k=16)


def member(**changes: object) -> RayMember:
    return RayMember("here/llvm:0", {**hello("llvm:0", OPEN), **changes})


def test_a_member_measures_batches_and_controls_report_the_load() -> None:
    here = member()
    opened = here.open()
    assert isinstance(opened, Member)
    assert opened.name == "here/llvm:0"
    default = Task.of(PROBLEM, discovery.find("llvm:0")).default
    here.cancel(9)
    for number, purpose in ((7, Purpose.MEASURE), (8, Purpose.CONTROL), (9, Purpose.MEASURE)):
        here.measure(MeasuringBatch(number, purpose, PROBLEM, (default,), Options()))
    first, measured, second, controlled, cancelled = here.events(1.0)
    for event, number in ((first, 7), (second, 8)):
        assert isinstance(event, Answered)
        assert (event.number, event.measurement.status) == (number, Status.CORRECT)
    for event, number in ((measured, 7), (controlled, 8), (cancelled, 9)):
        assert isinstance(event, Finished)
        assert (event.number, event.error) == (number, "")
    assert isinstance(measured, Finished)
    assert measured.load == Load()  # controls alone report the load of their machine
    assert isinstance(controlled, Finished)
    assert 0 <= controlled.load.others <= 1
    assert here.events(0.0) == []
    here.note("2 trials")
    assert here.noted() == "2 trials"
    here.close()


@pytest.mark.parametrize(("changes", "reason"), [
    ({"version": "0.0.1", "sources": "0" * 64}, "has other sources than the driver's 0.0.1; install the same wheel"),
    ({"authentication": "token"}, "RAY_AUTH_MODE=token"),
    ({"device": "llvm:sve:1"}, "no device 'llvm:sve:1'"),
])
def test_a_member_that_does_not_fit_is_refused(changes: dict[str, object], reason: str,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    refused = member(**changes).open()
    assert isinstance(refused, str)
    assert reason in refused


def bundled(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    for name, text in (("library.toml", CORRECT), ("stencil.cl", SOURCE), ("bench", "#!/bin/sh\n"),
                       ("reference.py", "def run(problem, x):\n    return {}\n"), (".secret", "no")):
        (folder / name).write_text(text)
    (folder / "bench").chmod(0o755)
    return json.loads(json.dumps(bundle_of(read_library(folder))))  # type: ignore[no-any-return]


def test_a_library_travels_with_its_files(tmp_path: Path) -> None:
    bundle = bundled(tmp_path / "home")
    try:
        use_bundles([bundle], tmp_path / "away")
        folder = library_in_use("stencil").folder
        assert folder is not None
        assert folder.is_relative_to(tmp_path / "away")
        assert sorted(path.name for path in folder.iterdir()) == ["bench", "library.toml", "reference.py", "stencil.cl"]
        assert (folder / "bench").stat().st_mode & 0o100
    finally:
        from seqtune.kernels.operations.table import OPERATIONS

        IN_USE.pop("stencil", None)
        OPERATIONS.pop("stencil", None)


def test_a_damaged_bundle_and_a_path_outside_its_folder_are_refused(tmp_path: Path) -> None:
    bundle = bundled(tmp_path / "home")
    content = base64.b64encode(b"no").decode()
    with pytest.raises(FormatError, match="its digest differs"):
        use_bundles([{**bundle, "files": [["x", False, content]]}], tmp_path / "away")
    from seqtune.kernels.libraries import bundle as module

    hostile = {**bundle, "files": [["../x", False, content]]}
    with pytest.raises(FormatError, match="leads out of"):
        use_bundles([{**hostile, "digest": module._digest(hostile)}], tmp_path / "away")
    assert not (tmp_path / "x").exists()


def test_a_package_of_another_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "kernels_of_a_stranger").mkdir()
    module = tmp_path / "kernels_of_a_stranger" / "__init__.py"
    digests = []
    for text in ("one = 1\n", "one = 2\n"):
        module.write_text(text)
        package_digest.cache_clear()
        digests.append(package_digest("kernels_of_a_stranger"))
    assert digests[0] != digests[1]
    with pytest.raises(MisuseError, match="is not installed"):
        package_digest("no_such_package_here")


@pytest.mark.parametrize("text", ["", "local", "local:0", "local:65", "local:-1", "local:2x", "ray://", "ray://host",
                                  "ray://host:0", "ray://host:70000", "http://host:1", "AUTO", "ray://a b:1", None, 2])
def test_a_wrong_address_is_one_line(text: object) -> None:
    with pytest.raises(MisuseError, match=r"local:2|1 to 64 members"):
        FleetAddress.parse(text)
