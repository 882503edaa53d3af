"""The worker and its runner: whatever a kernel does, it is recorded, the rest is measured and the parent lives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options, check, prepare
from seqtune.tuner.measuring.worker.process import environment_for
from seqtune.tuner.measuring.worker.request import Limits
from tests.support import planted

QUICK = Options(samples=3, build_seconds=3.0, run_seconds=3.0)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as opened:
        yield opened


def measured(runner: Runner, *deeds: Configuration) -> list[Measurement]:
    measurements = list(runner.measure(planted.PROBLEM, deeds, QUICK))
    assert [configuration for configuration, _ in measurements] == list(deeds)
    return [measurement for _, measurement in measurements]


@pytest.mark.parametrize(("deed", "status", "words"), [
    ("good", Status.CORRECT, ""),
    ("compile", Status.COMPILE, "line 1: error: planted"),
    ("wrong", Status.CORRECTNESS, "wrong result: error .*e-03, allowed 1e-04"),
    ("nan", Status.CORRECTNESS, "NaN in the output"),
    ("unwritten", Status.CORRECTNESS, ".*never written"),
    ("overrun", Status.CORRECTNESS, "wrote outside its buffer: output"),
    ("launch", Status.RUNTIME, "too many work-items"),
    ("mistake", Status.RUNTIME, "ZeroDivisionError: a mistake in the backend"),
    ("segv", Status.CRASH, r"the worker died \(SIGSEGV, as by an access outside a buffer\)"),
    ("abort", Status.CRASH, r"the worker died \(SIGABRT\)"),
    ("lost", Status.CRASH, r"the worker died \(exit code 1\): an illegal memory access"),
    ("loop", Status.TIMEOUT, "no answer within"),
    ("loop_in_build", Status.TIMEOUT, "no answer within"),
    ("chatty", Status.CORRECT, ""),
])
def test_a_planted_kernel_is_recorded_with_its_status_and_the_run_goes_on(
        runner: Runner, deed: str, status: Status, words: str) -> None:
    before, measurement, after = measured(runner, planted.deed("good"), planted.deed(deed), planted.deed("good", 1))
    assert (before.status, measurement.status, after.status) == (Status.CORRECT, status, Status.CORRECT)
    assert re.match(words, measurement.message), measurement.message
    assert "\n" not in measurement.message
    assert bool(measurement.samples) == (status is Status.CORRECT)
    assert measurement.resources == (planted.RESOURCES if deed not in ("compile", "loop_in_build") else None)


@pytest.fixture(scope="module")
def llvm_runner() -> Iterator[Runner]:
    llvm = pytest.importorskip("seqtune.tuner.backends.llvm.discovery")
    if llvm.unavailable():
        pytest.skip(llvm.unavailable())
    with Runner(llvm.devices()[-1], kernels=planted.KERNELS, path=planted.PATH) as opened:
        yield opened


@pytest.mark.parametrize(("deed", "statuses"), [
    ("compile", "compile"), ("wrong", "correctness"), ("unwritten", "correctness"), ("overrun", "correctness"),
    ("underrun", "correctness"), ("far", "crash"), ("segv", "crash"), ("abort", "crash"), ("loop", "timeout")])
def test_planted_machine_code_is_recorded_with_its_status_and_the_run_goes_on(
        llvm_runner: Runner, deed: str, statuses: str) -> None:
    problem = Problem.make("gemm", m=1, n=1, k=1)
    deeds = [Configuration.of("planted.ir", {"deed": name}) for name in ("good", deed, "good")]
    before, measurement, after = (measurement for _, measurement in llvm_runner.measure(problem, deeds, QUICK))
    assert (before.status.value, measurement.status.value, after.status.value) == ("correct", statuses, "correct")
    assert measurement.message
    assert measurement.resources is None


def test_a_configuration_outside_its_space_is_refused_with_the_reason(runner: Runner) -> None:
    (measurement,) = measured(runner, planted.deed("good", 300))
    assert measurement.status is Status.CONSTRAINTS
    assert measurement.message == "more numbers than the problem has (number < m * 16)"


def test_a_crash_that_an_earlier_kernel_caused_is_not_blamed_on_the_next(runner: Runner) -> None:
    measurements = measured(runner, planted.deed("delayed"), planted.deed("good"), planted.deed("segv"))
    assert [measurement.status for measurement in measurements] == [Status.CORRECT, Status.CORRECT, Status.CRASH]


def test_a_crash_that_a_compared_kernel_caused_is_not_blamed_on_the_next() -> None:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        (compared,) = runner.compare(planted.PROBLEM, [planted.deed("delayed")], 2, QUICK)
        measurements = measured(runner, planted.deed("good"), planted.deed("segv"))
    assert compared.status is Status.CORRECT
    assert [measurement.status for measurement in measurements] == [Status.CORRECT, Status.CRASH]


def test_the_resources_of_compared_kernels_are_known_even_of_one_that_crashes(runner: Runner) -> None:
    deeds = [planted.deed(name) for name in ("good", "segv", "compile", "launch")]
    compared = runner.compare(planted.PROBLEM, deeds, 1, QUICK)
    assert [measurement.status.value for measurement in compared] == ["correct", "crash", "compile", "runtime"]
    assert [measurement.resources for measurement in compared] == [
        planted.RESOURCES, planted.RESOURCES, None, planted.RESOURCES]


def test_a_hopeless_candidate_is_dropped_early(runner: Runner) -> None:
    options = Options(samples=6, drop_factors=(8.0, 3.0, 1.3))
    configurations = [planted.deed("good", wait=wait) for wait in (0, 200, 20)]
    results = [*runner.measure(planted.PROBLEM, configurations[:2], options),
               *runner.measure(planted.PROBLEM, configurations[2:], options, best=1e-6)]
    first, slow, again = (measurement for _, measurement in results)
    assert len(first.samples) == 6
    assert len(slow.samples) == 2  # within a batch, the worker knows the best so far
    assert len(again.samples) == 2  # and otherwise the request contains it
    assert slow.status is Status.CORRECT


def test_finalists_are_compared_whatever_they_do(runner: Runner) -> None:
    names = ("good", "wrong", "segv", "overrun", "good", "loop", "lost", "compile")
    deeds = [planted.deed(name, number) for number, name in enumerate(names)]
    measurements = runner.compare(planted.PROBLEM, deeds, 4, QUICK)
    assert [measurement.status.value for measurement in measurements] == [
        "correct", "correctness", "crash", "correctness", "correct", "timeout", "crash", "compile"]
    assert [len(measurement.samples) for measurement in measurements] == [4, 0, 0, 0, 4, 0, 0, 0]


def test_a_run_that_stops_early_leaves_a_usable_worker(runner: Runner) -> None:
    deeds = [planted.deed("good", wait=200)] * 1000
    measuring = runner.measure(planted.PROBLEM, deeds, QUICK)
    next(measuring)
    start = time.monotonic()
    measuring.close()
    assert time.monotonic() - start < 60.0  # the other 999 would take 800 s
    assert measured(runner, planted.deed("good"))[0].status is Status.CORRECT


def test_a_problem_without_a_reference_is_an_error_in_one_line(runner: Runner) -> None:
    with pytest.raises(SeqtuneError, match="recorded has no reference"):
        list(runner.measure(Problem.make("recorded", size=3), [planted.deed("good")], QUICK))
    assert measured(runner, planted.deed("good"))[0].status is Status.CORRECT


@pytest.mark.parametrize(("model", "reason"), [("hungry", r"the worker died \(SIGKILL\)"), ("slow", "not within 0 s")])
def test_a_problem_that_cannot_be_prepared_is_blamed_on_no_configuration(
        model: str, reason: str) -> None:
    def limits(problem: Problem, options: Options, allowance: float) -> Limits:
        return Limits(0.02, 3.0, 3.0) if model == "slow" else Limits.of(problem, options, allowance)

    with Runner(replace(planted.DEVICE, model=model), planted.BACKEND, planted.KERNELS, planted.PATH,
                limits=limits) as unable:
        for ask in (lambda: list(unable.measure(planted.PROBLEM, [planted.deed("good")], QUICK)),
                    lambda: unable.compare(planted.PROBLEM, [planted.deed("good")], 2, QUICK)):
            with pytest.raises(SeqtuneError, match=f"the operands of gemm m=8 .* cannot be prepared .*{reason}"):
                ask()


def test_a_slow_kernel_has_time_for_the_check_and_for_samples() -> None:
    limits = [Limits.of(problem, Options(run_seconds=10.0)).run
              for problem in (Problem.make("gemm", m=1000, n=1000, k=1000), Problem.make("recorded", size=3))]
    assert limits == [pytest.approx(10.0 + 3 * 2.0), 10.0]  # 2 GFLOP at 1 GFLOP/s


@pytest.mark.slow
def test_a_backend_decides_how_long_a_build_may_take() -> None:
    slow = replace(planted.DEVICE, model="slow to build")
    with Runner(slow, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        (measurement,) = measured(runner, planted.deed("loop_in_build"))
    assert measurement.message == "no answer within 7 s of building or 3 s of running"


def test_an_overrun_is_recorded_in_a_field_and_not_only_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = planted.PlantedExecutable("overrun", 0.0, planted.PROBLEM)
    operands, expected = prepare(planted.PROBLEM)
    measurement, _ = check(executable, operands, expected)
    assert measurement.damaged
    assert Measurement.from_json(replace(measurement, message="in other words").to_json()).damaged


def test_a_worker_that_was_started_before_is_the_one_that_measures() -> None:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        runner.start()
        started = runner._worker
        runner.start()
        assert measured(runner, planted.deed("good"))[0].status is Status.CORRECT
        assert runner._worker is started
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as unused:
        unused.start()


def test_a_backend_that_does_not_open_is_unavailable() -> None:
    with Runner(replace(planted.DEVICE, model="broken"), planted.BACKEND, planted.KERNELS, planted.PATH) as broken, \
            pytest.raises(SeqtuneError, match="the driver is broken"):
        list(broken.measure(planted.PROBLEM, [planted.deed("good")], QUICK))
    with Runner(planted.DEVICE, "os:_exit", planted.KERNELS, planted.PATH) as dying, \
            pytest.raises((UnavailableError, SeqtuneError)):
        list(dying.measure(planted.PROBLEM, [planted.deed("good")], QUICK))


@pytest.mark.skipif(os.name != "posix", reason="looks for the process by its parent")
@pytest.mark.parametrize("name", ["good", "loop"])
def test_the_worker_ends_with_its_parent(name: str) -> None:
    script = ("import planted, os, threading; from seqtune.tuner.measuring.runner import *\n"
              "runner = Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH)\n"
              "list(runner.measure(planted.PROBLEM, [planted.deed('good')], Options()))\n"
              "print(runner._worker.pid, flush=True)\n"
              f"list(runner.measure(planted.PROBLEM, [planted.deed({name!r}, wait=20)] * 2000, Options()))\n")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": planted.PATH[0]}) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.1)
        parent.kill()
    worker.wait(timeout=60.0)  # the request would take 440 s, or for ever


@pytest.mark.parametrize(("backend", "limited"), [("llvm", "1"), ("opencl", "1"), ("cuda", None), ("triton", None)])
def test_numpys_threads_are_limited_where_kernels_run_on_the_cpu(
        backend: str, limited: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert environment_for(backend).get("OPENBLAS_NUM_THREADS") == limited


def test_threads_of_intels_opencl_runtime_are_pinned_unless_the_user_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SYCL_CPU_CU_AFFINITY", raising=False)
    assert environment_for("opencl")["SYCL_CPU_CU_AFFINITY"] == "close"
    monkeypatch.setenv("SYCL_CPU_CU_AFFINITY", "spread")
    assert environment_for("opencl")["SYCL_CPU_CU_AFFINITY"] == "spread"
