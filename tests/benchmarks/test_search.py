"""Tests of programs that compare searches: only the parts that measure nothing."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.common import peers
from benchmarks.search import across, replayed_campaigns
from benchmarks.search import recorded as search
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import FormatError, MisuseError
from seqtune.strategy_replay import recorded_spaces
from seqtune.tuner.run.simulation import RecordedSpace, SearchMethod
from tests.support.recorded_files import write_recorded


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


def test_searches_across_problems_are_compared_by_medians(tmp_path: Path) -> None:
    row = replayed_campaigns.compared("transfer", "d", [1.0, 3.0, math.inf], [9.0, 12.0, math.inf, math.inf])
    assert (row["median"], row["instead_of"], row["ratio"], row["missed"]) == (3.0, math.inf, 0.0, 1)
    campaign = {"part": "campaign", "device": "d", "problems": 3, "trials": 9.5, "share": 0.9, "random": None,
                "random_share": 0.7}
    rows = [row, {**campaign, "budget": "trials"}, {**campaign, "budget": "total", "random": 40}]
    assert "| transfer | d | 3 | 3 | > 200 | 0.00 |" in across.table(rows)
    assert "| d | total | 3 | 9.5 | 0.900 | 0.700 | 40 |" in across.table(rows)
    across.draw(rows, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


@pytest.mark.parametrize("program", [search, across])
@pytest.mark.parametrize("out", ["bare.md", "bare.md/out"])
def test_what_cannot_be_written_is_refused_before_the_search(
        program: ModuleType, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare.md").write_text("nothing")
    monkeypatch.setattr(program, "read_dataset", lambda _: pytest.fail("it began"))
    monkeypatch.setattr(sys, "argv", [
        "program", *(["none.parquet"] if program is search else []), "--out", str(tmp_path / out)])
    with pytest.raises(MisuseError, match="no folder"):
        program.main()


def test_a_device_that_the_data_lack_is_said_before_anything_is_searched(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["across", "--out", str(tmp_path), "--devices", "abacus", "--data",
                                      str(write_recorded(tmp_path / "recorded"))])
    with pytest.raises(MisuseError, match="no device 'abacus' in the data set; it has recorded:fast"):
        across.main()


def test_one_strategy_alone_is_searched_without_a_comparison(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [
        "search", str(write_recorded(tmp_path / "recorded")), "--out", str(tmp_path / "out"), "--peers", "",
        "--strategies", "random", "--repeats", "1", "--budgets", "3", "--jobs", "1"])
    search.main()
    assert "regret" not in capsys.readouterr().out
    assert "no other method" in (tmp_path / "out" / "results" / "search.md").read_text()


def test_what_is_done_across_problems_is_not_done_again(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    assert replayed_campaigns.FinishedSearches(path).get("one", lambda: [1.0, math.inf]) == [1.0, math.inf]
    assert replayed_campaigns.FinishedSearches(path).get("one", lambda: [2.0]) == [1.0, math.inf]
    with path.open("a") as file:
        file.write('["two", [3.')  # it was stopped there
    assert replayed_campaigns.FinishedSearches(path).get("two", lambda: [4.0]) == [4.0]
    assert replayed_campaigns.FinishedSearches(path).done == {"one": [1.0, math.inf], "two": [4.0]}
    path.write_text("nonsense")
    with pytest.raises(FormatError, match="not a file of finished searches"):
        replayed_campaigns.FinishedSearches(path)


def test_finished_searches_of_peers_are_kept_and_ours_are_made_anew(tmp_path: Path) -> None:
    asked = recorded_spaces(read_dataset(write_recorded(tmp_path / "recorded")), devices=["fast"])
    given = argparse.Namespace(work=tmp_path / "work", repeats=2, jobs=1)
    made: list[str] = []

    def method(name: str) -> SearchMethod:
        def one(recorded: RecordedSpace, trials: int, seed: int) -> list[int]:
            made.append(name)
            return [0, 1, 2]
        return one

    methods = {name: method(name) for name in ("ours", "kt:theirs")}
    first, again = (list(search.searched(given, asked, methods, 3)) for _ in range(2))
    assert made == ["ours"] * 2 + ["kt:theirs"] * 2 + ["ours"] * 2
    assert [one.method for one in again] == list(methods)
    assert all((one.shares == other.shares).all() for one, other in zip(first, again, strict=True))
    assert [one.method for one in search.clearest(first, "kt:theirs")] == list(methods)


@pytest.mark.parametrize("device", ["fast", "odd"])
def test_a_task_is_kernel_tuners_cache_whose_space_is_what_was_recorded(device: str, tmp_path: Path) -> None:
    recorded, = recorded_spaces(read_dataset(write_recorded(tmp_path / "recorded")), devices=[device])
    assert peers.searchable(recorded) is None
    peers.write_cache(tmp_path, recorded)
    written = json.loads(peers.cache_path(tmp_path, recorded).read_text())
    assert len(written["cache"]) == len(recorded.seconds)
    assert written["tune_params"]["order"] == ([0, 1] if device == "fast" else [1])
    if importlib.util.find_spec("kernel_tuner") is not None:
        numbers = peers.Peer("random_sample", tmp_path)(recorded, 5, 1)
        assert len(set(numbers)) == len(numbers) == 5
        assert 0 < len(peers.Peer("genetic_algorithm", tmp_path)(recorded, 5, 1)) <= 5  # ends early in a space so small
