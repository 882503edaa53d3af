"""A replay answers from records as if it measured, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
from seqtune.tuner.measuring.timing import Options
from tests.support.records import DEVICE as LLVM
from tests.support.records import space_records, write_journal

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)
KERNEL = Kernel("test.k", "gemm", ("test",), (Parameter("tile", (1, 2)),), (), (("tile", 1),))
ONE, TWO = (Configuration.of("test.k", {"tile": tile}) for tile in (1, 2))


def record(configuration: Configuration, seconds: float, device: str = DEVICE.key, version: int = 1,
           toolchain: str = "t", run: str = "random") -> Record:
    return Record(PROBLEM, device, version, configuration, toolchain, Measurement(Status.CORRECT, (seconds,)), run=run)


def test_what_was_recorded_comes_back_and_the_later_record_counts() -> None:
    records = [record(ONE, 3.0), record(ONE, 2.0), record(TWO, 1.0, "another device")]
    replay = RecordedMeasurer(DEVICE, records, [KERNEL])
    assert PROBLEM in replay
    measurements = dict(replay.measure(PROBLEM, [TWO, ONE], Options()))
    assert measurements[ONE].seconds == 2.0
    assert measurements[TWO].status is Status.RUNTIME
    assert measurements[TWO].message == "not recorded on test:1"
    assert replay.compare(PROBLEM, [TWO, ONE], 3, Options()) == [measurements[TWO], measurements[ONE]]


def test_another_problem_is_not_recorded() -> None:
    replay = RecordedMeasurer(DEVICE, [record(ONE, 3.0)], [KERNEL])
    other = Problem.make("gemm", m=9, n=4, k=5)
    assert other not in replay
    ((_, measurement),) = replay.measure(other, [ONE], Options())
    assert measurement.status is Status.RUNTIME


def test_another_kernel_version_or_toolchain_is_not_what_would_run_now() -> None:
    replay = RecordedMeasurer(DEVICE, [record(ONE, 3.0, version=2), record(TWO, 3.0, toolchain="older")], [KERNEL])
    assert PROBLEM not in replay
    assert {measurement.status for _, measurement in replay.measure(PROBLEM, [ONE, TWO], Options())} == {Status.RUNTIME}


def test_the_finals_are_compared_where_all_were_in_them_else_the_trials() -> None:
    trials = [record(ONE, 1.0), record(TWO, 2.0)]
    finals = [record(TWO, 3.0, run="final"), record(ONE, 4.0, run="final")]

    def compared(records: list[Record]) -> list[float]:
        measurer = RecordedMeasurer(DEVICE, records, [KERNEL])
        return [measurement.seconds for measurement in measurer.compare(PROBLEM, [ONE, TWO], 3, Options())]

    assert compared([*trials, *finals]) == [4.0, 3.0]
    assert compared([*trials, finals[0]]) == [1.0, 2.0]


def test_what_was_measured_again_alone_counts_where_it_was_faster() -> None:
    records = [record(ONE, 1.0), record(ONE, 3.0, run="again"), record(TWO, 2.0), record(TWO, 1.5, run="again")]
    measurements = dict(RecordedMeasurer(DEVICE, records, [KERNEL]).measure(PROBLEM, [ONE, TWO], Options()))
    assert [measurements[configuration].seconds for configuration in (ONE, TWO)] == [1.0, 1.5]


GEMM = ["gemm", "m=16", "n=16", "k=16"]


@pytest.fixture
def data(tmp_path: Path) -> str:
    """The first 20 configurations of a matrix product, ever faster, on a device that no machine has."""
    space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=16, n=16, k=16), LLVM)
    path = write_journal(tmp_path / "source.sqlite", space_records(space, [1e-3 / (row + 1) for row in range(20)]))
    with Journal(path) as journal:
        Dataset.from_journal(journal).write(tmp_path / "data.parquet")
    return str(tmp_path / "data.parquet")


def test_a_search_is_replayed_on_a_device_that_is_not_here_and_leaves_no_trace(
        data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    before = sorted(tmp_path.iterdir())
    arguments = ["tune", *GEMM, "--strategy", "exhaustive", "--replay", data, "--device", "llvm:avx7"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (result,) = answer["results"]
    space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=16, n=16, k=16), LLVM)
    assert result["best"]["configuration"] == dict(space[19].settings)
    assert result["best"]["seconds"] == pytest.approx(1e-3 / 20)
    assert (result["trials"], result["failed"]) == (len(space), 0)  # a configuration without a record has not failed
    assert (answer["replayed"], answer["journal"], answer["device"]) == (data, None, LLVM.name)
    assert main(["tune", *GEMM, "--trials", "3", "--replay", data]) == 0  # the data set has one device
    assert "nothing was measured" in capsys.readouterr().out
    assert main(["tune", *GEMM, "--trials", "7", "--replay", data, "--json"]) == 0
    assert [result["trials"] for result in json.loads(capsys.readouterr().out)["results"]] == [7]
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("arguments", "says"), [
    ([*GEMM, "--device", "llvm:0"], "no device 'llvm:0'; the data set has llvm:avx7:3"),
    (["gemm", "m=1", "n=1", "k=1"], "has no record of gemm m=1 n=1 k=1"),
    ([*GEMM, "--journal", "j.sqlite"], "leave out --journal or --replay")])
def test_what_cannot_be_replayed_is_refused_in_one_line(
        arguments: list[str], says: str, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *arguments, "--replay", data]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""
