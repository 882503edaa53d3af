"""The program that compares searches, and recorded problems: everything but live searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.finished import Finished
from benchmarks.search import peers
from benchmarks.search import recorded as search
from benchmarks.search.comparison import Search, compare
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError
from seqtune.kernels.problem_sets.similarity import distance, near
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.run.history import MOST_PROBLEMS
from tests.support.synthetic import WIDE, data


def shares(**by_method: float) -> list[dict[str, object]]:
    """Make the rows of one space at one budget."""
    return [{"space": "s", "device": "d", "budget": 50, "strategy": name, "share_mean": share, "share_sem": 0.01}
            for name, share in by_method.items()]


def test_regret_is_compared_with_the_best_other_method_of_each_space() -> None:
    one, overall = search.ratios(shares(ours=0.9, a=0.7, b=0.8), "ours")
    assert (one["best_peer"], one["ratio"], overall["ratio"]) == ("b", pytest.approx(0.5), pytest.approx(0.5))
    assert one["behind"] == pytest.approx(-0.1 / (0.01 * 2**0.5))
    assert search.ratios(shares(ours=1.0, a=1.0), "ours")[0]["ratio"] == 1.0  # none is nearer than 0.001
    rows = shares(ours=0.9, a=0.7, b=0.8)
    assert "| s | d | 0.900 (0.800 b) |" in search.brief(rows, search.ratios(rows, "ours"), "ours")


@pytest.mark.usefixtures("fake_kernel")
def test_the_history_of_a_problem_is_that_of_the_nearest_others() -> None:
    measured = data(30, held_out=1, sampled=30, devices=(WIDE,))
    held_out, = measured_tasks(measured, held_out=True)
    others = measured_tasks(measured, held_out=False)
    known = search.nearest(held_out.problem, others)
    distances = [distance(other.problem, held_out.problem) for other in known]
    assert len(known) == MOST_PROBLEMS
    assert distances == sorted(distances)
    assert not any(near(other.problem, held_out.problem) for other in known)
    assert all(distance(other.problem, held_out.problem) >= distances[-1] or near(other.problem, held_out.problem)
               for other in others if other not in known)


class Toy:
    """A problem whose search results are the calls so far."""

    names = ("toy",)

    def __init__(self) -> None:
        self.calls: list[str] = []

    def searches(self, methods: Sequence[str]) -> Sequence[Search]:
        return [Search(method, seed) for seed in range(2) for method in methods]

    def is_stored(self, search: Search) -> bool:
        return search.method.startswith(peers.PREFIX)

    @contextmanager
    def ready(self, finished: Finished) -> Iterator[None]:
        self.calls.append("ready")
        yield

    def search(self, search: Search, finished: Finished) -> list[float]:
        self.calls.append(f"{search.method} {search.seed}")
        return [float(len(self.calls))]

    def outcomes(self, results: Mapping[Search, Any], finished: Finished) -> list[list[float]]:
        return list(results.values())


def test_what_is_stored_is_not_searched_again_and_nothing_begins_after_the_deadline(tmp_path: Path) -> None:
    toy, methods = Toy(), ["ours", "kt:theirs"]
    late = Finished(tmp_path, Deadline(0.0))
    assert (compare([toy], methods, late), late.left, toy.calls) == ([], 4, ["ready"])
    toy.calls.clear()
    assert compare([toy], methods, Finished(tmp_path)) == [[2.0], [3.0], [4.0], [5.0]]
    assert toy.calls == ["ready", "ours 0", "kt:theirs 0", "ours 1", "kt:theirs 1"]
    toy.calls.clear()
    assert compare([toy], methods, Finished(tmp_path)) == [[2.0], [3.0], [3.0], [5.0]]
    assert toy.calls == ["ready", "ours 0", "ours 1"]
    late = Finished(tmp_path, Deadline(0.0))
    assert (compare([toy], ["kt:theirs"], late), late.left) == ([[3.0], [5.0]], 0)
    next(tmp_path.glob("*theirs_0.json")).write_text("[")
    with pytest.raises(FormatError, match="remove it"):
        compare([toy], methods, Finished(tmp_path))
