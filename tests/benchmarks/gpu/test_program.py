"""The program that measures one GPU: replayed, on stubs, on an OpenCL device, and on a GPU where there is one."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.program import run_program
from benchmarks.gpu import comparison, measuring, page, program
from benchmarks.gpu.problems import Problems, problems_of
from benchmarks.gpu.run import CHECKS, JOURNAL, Gpu, Options, Run, read_run
from seqtune import api
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.provenance import check_measured
from seqtune.data.record import Measurement, Status
from seqtune.data.shipped_machines import SHIPPED, shipped_devices
from seqtune.errors import FormatError, MisuseError, SeqtuneError, UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options as MeasuringOptions
from tests.support.devices import described_gpu
from tests.support.installation.optional import needs, skip_without_device
from tests.support.measuring.instant import Instant
from tests.support.paths import ROOT

SMALL = tuple(Problem.make("gemm", m=m, n=24, k=16) for m in (3, 8, 12))
MOST_BYTES = 1_000_000  # of a file of a GPU that is shipped
# A measurement that kills its own process, after NUMBER others.
KILLED = """
import os, signal, sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from benchmarks.gpu.measuring import measure
from benchmarks.gpu.problems import problems_of
from benchmarks.gpu.run import Gpu, Options, Run

class Killing:
    def __init__(self, measurer):
        self.measurer, self.device, self.count = measurer, measurer.device, 0

    def measure(self, *arguments):
        for measured in self.measurer.measure(*arguments):
            if self.count == NUMBER:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1
            yield measured

gpu = Gpu.replayed()
with gpu.measurer() as measurer:
    killing = Killing(measurer)
run = Run(Path(sys.argv[1]), replace(gpu, measurer=lambda: nullcontext(killing)),
          Options(problems_of(["conv2d:fp32"], 100), configurations=8))
with run.alone():
    measure(run)
"""


class Stub(Instant):
    """An instant measurer that notes what it measures, and gives the message of a planted failure."""

    def __init__(self, wrong: str = "") -> None:
        device = described_gpu("cuda", "h200")
        super().__init__(device)
        self.wrong = wrong
        self.measured: list[tuple[Problem, Configuration]] = []

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: MeasuringOptions,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for measured in super().measure(problem, configurations, options, best):
            self.measured.append((problem, measured[0]))
            yield (measured[0], Measurement(Status.CORRECTNESS, message=self.wrong)) if self.wrong else measured


def run_with(folder: Path, stub: Stub, **options: Any) -> Run:
    """A run whose device need not be here, measured by a stub."""
    folder.mkdir(exist_ok=True)
    return Run(folder, Gpu(stub.device, lambda: nullcontext(stub)),
               Options(Problems(SMALL), configurations=20, **options))


def replayed_run(folder: Path, *names: str, **options: Any) -> Run:
    """A run on the simulated GPU."""
    folder.mkdir(exist_ok=True)
    return Run(folder, Gpu.replayed(), Options(problems_of(names, 100), **options))


def whens(folder: Path) -> dict[Any, float]:
    """The time of each record in a folder's journal."""
    with Journal(folder / JOURNAL) as journal:
        return {record.identity: record.when for record in journal.records()}


@pytest.mark.slow
def test_a_measurement_that_is_killed_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    killed = subprocess.run([sys.executable, "-c", KILLED.replace("NUMBER", "20"), str(folder)], cwd=ROOT, check=False,
                            capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = whens(folder)
    assert len(before) == 20
    measuring.measure(replayed_run(folder, "conv2d:fp32", configurations=8))
    after = whens(folder)
    assert before.items() < after.items()


@pytest.mark.slow
def test_a_dry_run_does_all_tasks_and_marks_all_files(tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    arguments = ["--dry-run", "--problems", "conv2d:fp32", "--configurations", "16", "--compared", "1", "--out",
                 str(folder)]
    program.main(arguments)
    stored, results = read_run(folder), json.loads((folder / "results" / "gpu.json").read_text())
    assert all("not measurements" in content["dry_run"] for content in (stored, results))
    assert "dry run" in (folder / "results" / "gpu.md").read_text()
    assert {row["group"] for row in results["evaluated"]} == {"conv2d fp32"}
    data = Dataset.read(folder / "measured.parquet")
    assert {device.name for device in data.devices.values()} == {"cuda:simulated"}
    assert data.held_out
    with pytest.raises(MisuseError, match="dry run"):
        check_measured(data.provenance, folder)
    with pytest.raises(MisuseError, match="dry run"):
        api.train(folder / "measured.parquet", tmp_path / "trained")
    before = whens(folder)
    program.main(arguments)  # once more: everything is known
    assert whens(folder) == before
    assert read_run(folder)["compared"] == stored["compared"]
    program.main(["--tasks", "report", "--out", str(folder)])  # on a machine without the device
    with pytest.raises(SeqtuneError, match="failed: check"):
        program.main(["--tasks", "check", *arguments])


def test_a_folder_is_of_one_device_and_kind_and_of_one_process(tmp_path: Path) -> None:
    run = run_with(tmp_path, Stub())
    with run.alone():
        run.store({"packages": {}})
        with pytest.raises(SeqtuneError, match="another process"), run.alone():
            pass
    with run.alone():
        pass
    for gpu, message in ((replace(run.gpu, device=replace(run.device, name="cuda:other")), "is of"),
                         (replace(run.gpu, simulated=True), "holds measurements")):
        with pytest.raises(MisuseError, match=message), replace(run, gpu=gpu).alone():
            pass


@pytest.mark.parametrize("content", [
    "[" * 5000, "[]", '{"device": 3}', '{"device": {"name": "a", "odd": 1}}', '{"device": DEVICE, "compared": 3}',
    '{"device": DEVICE, "compared": [{"problem": "p"}]}'])
def test_a_damaged_run_is_refused_with_a_reason(content: str, tmp_path: Path) -> None:
    run = run_with(tmp_path, Stub())
    (tmp_path / "run.json").write_text(content.replace("DEVICE", json.dumps(run.device.to_json())))
    with pytest.raises(FormatError, match="damaged"):
        read_run(tmp_path)


@pytest.mark.parametrize("arguments", [
    ("--tasks", "nope"), ("--device", "nope"), ("--minutes", "0"), ("--minutes", "-1"), ("--minutes", "nan"),
    ("--compared", "x"), ("--nope", "a\nb"), ("--problems", "gemm:half", "--dry-run"), ("--kernels", "cuda.nope"),
    ("--tasks", "report", "--out", "nope"), ("--dry-run", "--problems", "nope.txt")])
def test_a_misuse_is_one_line(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_program("gpu", lambda: program.main(arguments))
    assert ended.value.code in (1, 2)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_wrong_number_fails_the_check_again_and_again(tmp_path: Path) -> None:
    wrong = Stub(wrong="off by one")
    run = run_with(tmp_path, wrong, checked=5, kernels=("cuda.gemm",))
    for _ in range(2):
        with pytest.raises(SeqtuneError, match=r"0 of 5 configurations are right.*cuda\.gemm.*off by one"):
            measuring.check(run)
    assert len(wrong.measured) == 5  # once; the journal keeps what was found
    assert not (tmp_path / JOURNAL).exists()
    with Journal(tmp_path / CHECKS) as journal:
        assert page.counts_of(journal.records())[0] == [{"kernel": "cuda.gemm", "dtype": "fp32", "correctness": 5}]
    right = Stub()
    assert measuring.check(run_with(tmp_path / "again", right, checked=5)) == (
        f"{len(right.measured)} of {len(right.measured)} configurations are right")


@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.device
@needs("torch")
def test_an_opencl_device_is_checked_and_compared_by_real_measurements(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    problem = Problem.make("gemm", m=16, n=32, k=64, trans_b="yes")
    (tmp_path / "gpu").mkdir()
    run = Run(tmp_path / "gpu", Gpu.present("opencl:0"), Options(Problems((problem,)), ("opencl.gemm",), checked=2,
                                                                rounds=2, trials=6))
    assert measuring.check(run) == "2 of 2 configurations are right"
    assert comparison.compare(run) == "1 of 1 problems compared"
    rows = read_run(run.folder)["compared"]
    assert {"torch.matmul", "default", "tuned"} <= {row["method"] for row in rows}
    assert {row["compiled"] for row in rows} == {False}  # torch.compile is asked on GPUs only
    assert all(row["seconds"] > 0 and row["error"] < 1e-3 for row in rows)
    assert "| torch.matmul |" in page.time_tables(rows)


def test_measurements_of_gpus_are_shipped_apart_from_those_that_the_shipped_checkpoint_learned_from() -> None:
    files = sorted((SHIPPED / "gpus").glob("*.parquet"))
    assert files
    for path in files:
        data = Dataset.read(path)
        check_measured(data.provenance, path)
        assert data.held_out
        assert path.stat().st_size < MOST_BYTES
        assert {device.backend for device in data.devices.values()} == {"cuda", "triton"}
    assert not {"cuda", "triton"} & {device.backend for device in shipped_devices()}
    assert not any(b"dry_run" in path.read_bytes() for path in SHIPPED.glob("*.parquet"))  # the metadata are plain


def test_a_task_that_fails_is_reported_and_the_next_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(run: Run) -> str:
        raise SeqtuneError("the driver refused")

    def lack(run: Run) -> str:
        raise UnavailableError("no such package")

    def crash(run: Run) -> str:
        raise ValueError("odd")

    tasks: dict[str, program.Task] = {"check": fail, "measure": lack, "compare": crash, "report": lambda run: "fine"}
    run = run_with(tmp_path, Stub())
    assert program.run_tasks(run, tasks) == ["check", "compare"]
    assert program.run_tasks(run, tasks, required=True) == ["check", "measure", "compare"]
    said = capsys.readouterr().err
    for line in ("check: FAILED: the driver refused", "measure: left out: no such package",
                 "compare: FAILED: ValueError: odd", "report: fine"):
        assert line in said


def test_a_pass_over_all_problems_comes_before_the_next_one(tmp_path: Path) -> None:
    stub = Stub()
    measuring.measure(run_with(tmp_path, stub))
    first = stub.measured[:len(SMALL) * measuring.PASSES[0]]
    assert [sum(problem == other for other, _ in first) for problem in SMALL] == [measuring.PASSES[0]] * len(SMALL)
    assert len(stub.measured) == len(set(stub.measured)) > len(first)
