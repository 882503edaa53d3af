"""The figures of a report, compared with figures computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.reporting.importance import explained
from seqtune.reporting.pruning import pruned
from tests.support.command_line import Run
from tests.support.report_content import DEVICE, PROBLEM, configurations, content, record, write_journal

OTHER = Problem.make("gemm", m=48, n=32, k=16)


def test_a_journal_is_counted_by_machine_and_its_best_is_compared_with_the_safe_default(
        tmp_path: Path, run: Run) -> None:
    default, fast, slow = configurations(3)
    others = configurations(2, OTHER)
    records = [record(slow, 4e-3, 86_400.0), record(default, 3e-3, 86_401.0), record(fast, 1e-3, 86_402.0),
               record(fast, 1.2e-3, 86_403.0, run="final"), record(default, None, 4e5, version=1, message="old"),
               record(others[0], 2e-3, 86_404.0, problem=OTHER), record(others[1], 1e-3, 86_405.0, problem=OTHER),
               record(fast, 5e-3, 3 * 86_400.0, machine="l1=1 l2=2 l3=3 local=0")]
    journal = write_journal(tmp_path / "j.sqlite", records)
    answer = run("report", journal, "--out", tmp_path / "r.html")
    assert (answer["records"], answer["problems"], answer["failures"], answer["left_out"]) == (8, 2, 1, 0)
    facts, columns = content(tmp_path / "r.html")
    here, there = facts["overview"]
    assert (here["records"], here["problems"], here["failures"], here["hosts"]) == (7, 2, 1, ["a-host"])
    assert (here["first"], here["last"]) == ("1970-01-02", "1970-01-05")
    assert here["compared"] == 2
    assert here["speedup"] == pytest.approx((3 / 1.1 + 2) / 2)  # medians: 3 ms against 1.1 ms, 2 ms against 1 ms
    assert (there["records"], there["speedup"]) == (1, None)  # the facts of that machine are not stored
    assert here["label"] != there["label"]
    assert facts["former"] == 1
    case = [facts["problems"][index] for index in columns["problem"]].index(PROBLEM.key)
    begin = sum(columns["count"][:case])
    seconds = [math.exp(facts["log_base"] + (level - 1) * facts["log_step"])
               for level in columns["seconds"][begin:begin + columns["count"][case]]]
    assert seconds == pytest.approx([4e-3, 3e-3, 1e-3, 1.2e-3], rel=1e-3)  # in the order of measuring
    assert columns["repeated"][begin:begin + 4] == [0, 0, 0, 1]
    kernel = facts["kernels"][0]
    row = columns["default_configuration"][case] - 1
    values = [parameter["values"][columns[f"value:0:{index}"][row] if columns[f"value:0:{index}"] else 0]
              for index, parameter in enumerate(kernel["parameters"])]
    assert dict(zip([each["name"] for each in kernel["parameters"]], values, strict=True)) == dict(default.settings)


def test_importance_is_the_share_of_the_variance_between_values() -> None:
    case, logs = np.array([0, 0, 0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0, 5.0, 9.0])
    for value, expected in (([0, 0, 1, 1, 0, 1], 1.0), ([0, 1, 0, 1, 0, 1], 0.0)):  # case 1 is too small to count
        share = explained(case, logs, np.array(value))
        assert share is not None
        assert share == pytest.approx((expected, 1 / 3, 1))
    share = explained(case, np.array([0.0, 2.0, 2.0, 4.0, 0.0, 0.0]), np.array([0, 0, 1, 1, 0, 1]))
    assert share is not None
    assert share[0] == pytest.approx(4 / 8)
    assert explained(case, logs, np.zeros(6, int)) is None
    assert explained(case[:0], logs[:0], case[:0]) is None


def test_a_constraint_excludes_a_share_of_all_combinations() -> None:
    kernel = Kernel.of(name="llvm.toy", operation="gemm", meaning="", parameters=(
        Parameter("a", (1, 2, 3, 4)), Parameter("b", (1, 2)), Parameter("c", (0, 1, 2))),
        derived=(("area", "a * b"),), constraints=(("area <= 4", "too large"), ("c < 5", "never broken"),
                                                  ("m >= 1000 or c == 0", "small")), default={"a": 1, "b": 1, "c": 0})
    found = pruned(kernel, PROBLEM, DEVICE)
    assert found is not None
    assert (found["combinations"], found["left"]) == (24, 6)  # (a, b): 4 + 2 of 8
    assert [(each["reason"], each["share"], each["sampled"]) for each in found["constraints"]] == [
        ("too large", 2 / 8, False), ("never broken", 0, False), ("small", pytest.approx(2 / 3), False)]


def test_forecasts_compare_the_first_proposal_with_its_measured_share(tmp_path: Path, run: Run) -> None:
    import seqtune

    journal = write_journal(tmp_path / "j.sqlite", [record(configurations(1)[0], 1e-3, 1.0)])
    run("report", journal, "--out", tmp_path / "r.html", "--checkpoint", "default")
    (point,) = content(tmp_path / "r.html")[0]["forecasts"]["points"]
    first = seqtune.predict(PROBLEM, DEVICE, checkpoint="default", evidence=False).candidates[0]
    assert first.confidence is not None
    assert point["expected"] == pytest.approx(first.confidence.share, abs=1e-3)
    best = next(each for each in configurations(9) if each != first.configuration)
    records = [record(first.configuration, 4e-3, 1.0), record(best, 3e-3, 2.0)]
    run("report", write_journal(tmp_path / "k.sqlite", records), "--out", tmp_path / "r.html", "--force",
        "--checkpoint", "default")
    facts, _ = content(tmp_path / "r.html")
    assert facts["forecasts"]["points"][0]["share"] == 0.75
    assert (facts["forecasts"]["evaluated"], facts["forecasts"]["drawn"]) == (1, 1)
