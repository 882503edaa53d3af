"""Contract slice: the tests that need a device, and random configurations of every family against float64.

Numbers come before speed: a family that computes wrong numbers fails the slice, and its configurations are listed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from benchmarks.gpu.ahead import KernelsAhead, stopping
from benchmarks.gpu.collecting import measure
from benchmarks.gpu.day import Day
from benchmarks.gpu.slices import SliceOutcome
from seqtune.data.record import Status
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.feature import DTYPE, Value
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, table
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.timing import Options

CHECKING = Options(samples=1)
TEST_SHARE = 0.5  # of the slice's time for the tests
# few numbers, odd sizes and every layout: borders of tiles are where kernels go wrong
SMALL: dict[str, tuple[dict[str, Value], ...]] = {
    "gemm": ({"m": 64, "n": 96, "k": 128}, {"m": 129, "n": 72, "k": 200, "trans_b": "yes"},
             {"m": 37, "n": 50, "k": 70, "bias": "yes", "activation": "relu"},
             {"m": 256, "n": 256, "k": 1024, "trans_b": "yes"}, {"m": 1, "n": 512, "k": 768, "trans_b": "yes"}),
    "conv2d": ({"c": 32, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1},
               {"n": 2, "c": 64, "h": 9, "w": 11, "k": 40, "r": 1, "s": 1, "layout": "NHWC"},
               {"c": 16, "h": 17, "w": 15, "k": 24, "r": 3, "s": 3, "stride_h": 2, "stride_w": 2, "layout": "NHWC",
                "bias": "yes", "activation": "relu"},
               {"c": 3, "h": 32, "w": 32, "k": 16, "r": 7, "s": 7, "pad_h": 3, "pad_w": 3, "stride_h": 2,
                "stride_w": 2}),
}
LARGEST_REPORT = 50_000_000  # bytes of pytest's file


def samples(day: Day, count: int, seed: int = 0) -> Iterator[tuple[Kernel, Problem, list[Configuration]]]:
    """Random configurations of every family of the day's backend, for each element type and small problem."""
    generator = np.random.default_rng(seed)
    for name in table(day.device.backend):
        family = kernel(name)
        for features in SMALL.get(family.operation, ()):
            for dtype in DTYPE.choices:
                problem = Problem.make(family.operation, **{**features, "dtype": dtype})
                if family.why_not(problem, day.device) is None:
                    space = SearchSpace(family, problem, day.device)
                    if len(space):
                        rows = generator.choice(len(space), min(count, len(space)), replace=False)
                        yield family, problem, [space[int(row)] for row in rows]


def run(day: Day, name: str) -> SliceOutcome:
    """Run the tests and check the samples; the slice fails if a test fails or a configuration is wrong."""
    tests = {"left_out": "a dry run has no device"} if day.dry else device_tests(day, TEST_SHARE * day.left)
    rows: dict[tuple[str, str], Counter[str]] = {}
    wrong, finished, worst = list[dict[str, Any]](), True, dict[str, float]()
    kernels = KernelsAhead(day, day.device)
    work = [(*sample, kernels.start(*sample[1:])) for sample in samples(day, day.sizes.contract_configurations)]
    with day.journal(name) as journal, day.measurer(day.device) as measurer, stopping(kernels):
        journal.add_device(day.device)
        for family, problem, configurations, compiling in work:
            if not day.left:
                finished = False
                break
            kernels.finish(compiling)
            known = measure(day, journal, measurer, problem, configurations, CHECKING, "contract")
            dtype = str(problem["dtype"])
            for configuration, measurement in known.items():
                rows.setdefault((family.name, dtype), Counter())[measurement.status.value] += 1
                if measurement.error is not None:
                    worst[f"{family.name} {dtype}"] = max(worst.get(f"{family.name} {dtype}", 0.0), measurement.error)
                if measurement.status is not Status.CORRECT:
                    wrong.append({"problem": problem.key, "kernel": configuration.kernel,
                                  "configuration": dict(configuration.settings),
                                  "status": measurement.status.value, "message": measurement.message})
    counts = [{"kernel": family, "dtype": dtype, **statuses} for (family, dtype), statuses in rows.items()]
    failed = bool(tests.get("failures") or tests.get("errors")) or (bool(wrong) and not day.dry)
    total = sum(sum(statuses.values()) for statuses in rows.values())
    return SliceOutcome(finished, f"{total - len(wrong)} of {total} configurations are right; tests: {tests}",
                        {"tests": tests, "families": counts, "worst_errors": worst, "wrong": wrong}, failed)


def device_tests(day: Day, seconds: float) -> dict[str, Any]:
    """Run the tests marked `device` in a process of their own; return their counts and the names of failures."""
    report = day.path("results", "device-tests.xml")
    report.unlink(missing_ok=True)
    marked = [str(path) for path in sorted(Path("tests").rglob("test_*.py")) if "mark.device" in path.read_text()]
    command = [sys.executable, "-m", "pytest", "-v", "-m", "device", "-p", "no:cacheprovider", "-p", "no:randomly",
               f"--junitxml={report}", *marked]  # other tests need packages that this machine may lack
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=max(10.0, seconds))
    except subprocess.TimeoutExpired as late:
        return counts_until(late.stdout or b"", f"the tests did not end in {seconds:.0f} s")
    if not report.exists():
        return counts_until(done.stdout, f"the tests' process ended with {done.returncode}",
                            (done.stdout + done.stderr).decode(errors="replace").strip()[-500:])
    return counts_of(read_bounded(report, LARGEST_REPORT))


def counts_until(output: bytes, end: str, otherwise: str = "") -> dict[str, Any]:
    """The counts in pytest's lines until its process ended, and the test in progress then.

    Without any line of a test, `otherwise` is the message.
    """
    results: dict[str, str] = {}
    current = ""
    for line in output.decode(errors="replace").splitlines():
        if line.startswith("tests/") and "::" in line:
            ended = re.match(r"(.*?::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", line)
            current = "" if ended else line.strip()
            results |= {ended[1]: ended[2]} if ended else {}
    counts = Counter(results.values())
    message = f"{end} in {current}" if current else otherwise or end
    return {"tests": len(results), "failures": counts["FAILED"], "errors": counts["ERROR"] + 1,
            "skipped": counts["SKIPPED"], "failed": [name for name, result in results.items()
                                                     if result in ("FAILED", "ERROR")][:50], "message": message[:1000]}


def counts_of(report: bytes) -> dict[str, Any]:
    """The counts of a JUnit report, with the names of failed tests and the reasons of skipped ones."""
    suite = next(ElementTree.fromstring(report).iter("testsuite"))
    failures = [f"{case.get('classname')}::{case.get('name')}" for case in suite.iter("testcase")
                if case.find("failure") is not None or case.find("error") is not None]
    reasons = Counter(str(skipped.get("message"))[:120] for skipped in suite.iter("skipped"))
    return {**{count: int(suite.get(count, 0)) for count in ("tests", "failures", "errors", "skipped")},
            "failed": failures[:50], "skipped_because": dict(reasons.most_common(20))}
