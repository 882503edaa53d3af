"""`seqtune report`: what it refuses, what it leaves out, and which data it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import seqtune
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.reporting.content import PageLimits
from seqtune.reporting.measurements import read
from seqtune.reporting.report import write_report
from tests.support.command_line import Refused, Run
from tests.support.report_content import DEVICE, HOSTILE, configurations, content, record, write_journal


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return write_journal(tmp_path / "j.sqlite", [
        record(each, 1e-3 * (1 + number), float(number)) for number, each in enumerate(configurations(12))])


@pytest.mark.parametrize(("arguments", "says"), [
    (["{tmp}/none.sqlite", "--out", "{tmp}/r.html"], "no file"),
    (["{tmp}/empty.sqlite", "--out", "{tmp}/r.html"], "holds no trials"),
    (["{tmp}/zero", "--out", "{tmp}/r.html"], "zero"),
    (["{tmp}/j.sqlite", "--out", "{tmp}/none/r.html"], "does not exist"),
    (["{tmp}/j.sqlite", "--out", "{tmp}/j.sqlite"], "--force"),
    (["{tmp}/j.sqlite", "--out", "{tmp}"], "is a folder"),
    (["{tmp}/j.sqlite", "--out", "{tmp}/r.html", "--device", "abacus"], "no device 'abacus'"),
    (["{tmp}/j.sqlite", "--out", "{tmp}/r.html", "--checkpoint", "{tmp}/nothing"], "nothing")])
def test_wrong_arguments_are_refused_in_one_line_and_nothing_is_written(
        arguments: list[str], says: str, journal: Path, tmp_path: Path, refused: Refused) -> None:
    Journal(tmp_path / "empty.sqlite").close()
    (tmp_path / "zero").touch()
    error = refused("report", *(word.format(tmp=tmp_path) for word in arguments))
    assert says in error
    assert list(tmp_path.glob("*.html")) == []


def test_the_output_is_tried_before_the_work(journal: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(seqtune.SeqtuneError, match="does not exist"):
        seqtune.report(journal, tmp_path / "none" / "r.html", progress=steps.append)
    assert steps == []


def test_equal_measurements_make_equal_files(journal: Path, tmp_path: Path) -> None:
    pages = [seqtune.report(journal, tmp_path / f"{name}.html").out.read_bytes() for name in "ab"]
    assert pages[0] == pages[1]


def test_names_of_foreign_files_stay_out_of_the_html(tmp_path: Path, run: Run) -> None:
    device = replace(DEVICE, name=f"llvm:{HOSTILE}", model=HOSTILE)
    odd = Configuration(f"llvm.{HOSTILE}", (("__proto__", HOSTILE), ("a", 2**60)))
    path = write_journal(tmp_path / "&lt;<b>.sqlite", [
        record(odd, 1e-3, 1.0), record(configurations(1)[0], None, 2.0, message=HOSTILE)], device=device)
    run("report", path, "--out", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "onerror" not in text
    assert "<b>" not in text
    assert text.count("<script") == text.count("</script") == 2
    facts, _ = content(tmp_path / "r.html")
    assert facts["failures"]["kinds"][0]["reason"] == HOSTILE
    assert [parameter["values"] for kernel in facts["kernels"] for parameter in kernel["parameters"]
            if parameter["name"] in ("__proto__", "a")] == [[HOSTILE], [str(2**60)]]
    assert facts["pruning"]["undeclared"] == [f"llvm.{HOSTILE}"]


def test_problems_with_the_fewest_records_are_left_out_of_a_page_that_would_be_too_large(tmp_path: Path) -> None:
    problems = [Problem.make("gemm", m=32, n=32, k=16 * size) for size in range(1, 13)]
    journal = write_journal(tmp_path / "j.sqlite", [
        record(each, 1e-3 + 1e-6 * number * size, float(number), problem=problem)
        for size, problem in enumerate(problems, 1)
        for number, each in enumerate(configurations(10 * size, problem, seed=size))])
    whole = seqtune.report(journal, tmp_path / "whole.html").report
    cut = write_report(read(journal), journal.name, tmp_path / "cut.html", PageLimits(whole["bytes"] - 800)).report
    assert cut["bytes"] <= whole["bytes"] - 800
    assert 0 < cut["left_out"] < len(problems)
    facts, columns = content(tmp_path / "cut.html")
    assert facts["left_out"] == cut["left_out"]
    kept = [total for total, count in zip(columns["total"], columns["count"], strict=True) if count]
    lost = [total for total, count in zip(columns["total"], columns["count"], strict=True) if not count]
    assert len(lost) == len(facts["best_texts"]) == cut["left_out"]
    assert max(lost) <= min(kept)
    assert len(columns["seconds"]) == sum(kept)


def test_a_data_set_is_read_for_one_device_and_says_that_it_keeps_no_order(journal: Path, tmp_path: Path) -> None:
    with Journal(journal) as opened:
        data = Dataset.from_journal(opened)
    other = Device("opencl:cpu", "opencl", "a", "b")
    rows = data.rows.assign(device=other.key)
    Dataset(rows, {other.key: other}, data.known_problems).merge(data).write(tmp_path / "d.parquet")
    report = seqtune.report(tmp_path / "d.parquet", tmp_path / "r.html", device=DEVICE.name).report
    assert (report["records"], report["machines"]) == (12, [DEVICE.name])
    assert not content(tmp_path / "r.html")[0]["ordered"]
    assert seqtune.report(tmp_path / "d.parquet", tmp_path / "s.html").report["records"] == 24
