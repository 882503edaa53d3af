"""Recordings through the command line: import, export, and tuning by replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.formats.t4 import read_t4, results
from seqtune.data.journal.journal import Journal
from seqtune.errors import MisuseError
from tests.support.command_line import Refused, Run
from tests.support.recorded_files import CONFIGURATIONS, VALUES, cache, rows, write_cache, write_recorded
from tests.support.records import DEVICE, PROBLEM, RECORDS, write_journal


def test_the_command_line_imports_every_format(
        tmp_path: Path, run: Run, refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    caches, out = tmp_path / "caches", tmp_path / "out.parquet"
    caches.mkdir()
    write_cache(caches / "fast.json")
    write_cache(caches / "odd.json.gz", "odd")
    found = run("import", "kernel-tuner", caches, "--out", out)
    assert (found["records"], len(found["files"])) == (2 * len(CONFIGURATIONS), 2)
    assert len(Dataset.read(out)) == 2 * len(CONFIGURATIONS)
    (tmp_path / "t4.json").write_text(json.dumps(results(RECORDS, PROBLEM, DEVICE)))
    assert run("import", "t4", tmp_path / "t4.json", "--out", tmp_path / "t4.parquet")["records"] == len(RECORDS)
    recorded = write_recorded(tmp_path / "recorded")
    assert run("import", "recorded", recorded, "--out", out, "--force")["records"] == sum(
        row["measured"] for device in ("fast", "odd") for row in rows(device))
    assert "--force" in refused("import", "kernel-tuner", caches, "--out", out)
    assert main(["import", "recorded", str(recorded), "--out", str(out), "--force"]) == 0
    assert "left out" in capsys.readouterr().out


def test_the_command_line_exports_t4_of_a_journal(tmp_path: Path, run: Run, refused: Refused) -> None:
    write_journal(tmp_path / "j.sqlite", RECORDS)
    found = run("export", "--format", "t4", "--journal", tmp_path / "j.sqlite", "--out", tmp_path / "t4.json")
    assert (found["results"], found["problem"]) == (len(RECORDS), PROBLEM.key)
    first = read_t4(tmp_path / "t4.json").rows[0]
    assert first.seconds == pytest.approx(1e-3)
    assert first.samples == 2
    for more, says in ((["--problem", "gemm m=9 n=9 k=9"], "no trial of gemm m=9"),
                       (["--hold-out", "x"], "t4 has no option --hold-out; its own are --journal, --data"),
                       (["--device", "abacus"], "no device 'abacus'")):
        assert says in refused("export", "--format", "t4", "--journal", tmp_path / "j.sqlite", "--out",
                     tmp_path / "other.json", *more)
    assert "parquet has no option --problem" in refused(
        "export", "--problem", "gemm m=9 n=9 k=9", "--out", tmp_path / "x.parquet")


@pytest.mark.parametrize(("words", "command"), [
    (["c", "--prefix", "mine", "--library", "llvm"], "export-c"), (["c", "--help"], "export-c"),
    (["vllm", "--model-config", "config.json", "--tp", "8"], "serve-files vllm"), (["sglang"], "serve-files sglang")])
def test_what_export_wrote_before_names_the_command_that_writes_it_now(
        words: list[str], command: str, tmp_path: Path, refused: Refused) -> None:
    said = refused("export", "--format", *words, "--out", tmp_path / "out")
    assert said == f"seqtune: `seqtune export --format {words[0]}` is now `seqtune {command}`"
    with pytest.raises(MisuseError, match=command):
        seqtune.export(tmp_path / "out", words[0])
    assert not list(tmp_path.iterdir())


def test_the_help_of_a_format_shows_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--format", "t4", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--problem" in shown
    assert "--hold-out" not in shown
    assert main(["export", "--help"]) == 0
    assert {"--problem", "--hold-out", "--predictions"} <= set(capsys.readouterr().out.split())


def test_an_option_that_no_format_has_is_one_line(tmp_path: Path, refused: Refused) -> None:
    own = "parquet has no option --tp; its own are --journal, --hold-out"
    assert own in refused("export", "--tp=2", "--out", tmp_path / "x.parquet")
    with pytest.raises(MisuseError, match=own):
        seqtune.export(tmp_path / "x.parquet", tp=2)


def test_an_import_holds_out_problems(tmp_path: Path, run: Run, refused: Refused,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    files, out = [], tmp_path / "out.parquet"
    for size in (64, 128, 256, 512, 1024):
        files.append(write_cache(tmp_path / f"of-{size}.json"))
        files[-1].write_text(files[-1].read_text().replace("[640, 480]", f"[{size}, 480]"))
    imports = ["import", "kernel-tuner", *files, "--out", out, "--force"]
    assert (run(*imports)["held_out"], Dataset.read(out).held_out) == (0, frozenset())
    for option, sizes in (("size_x=256", {256}), ("40%", None)):
        assert run(*imports, "--hold-out", option)["held_out"] == (1 if sizes else 2)
        data = Dataset.read(out)
        held_out = {data.known_problems[key]["size_x"] for key in data.held_out}
        assert held_out == sizes or (sizes is None and len(held_out) == 2)
    assert "no problem has the feature 'm'" in refused(*imports, "--hold-out", "m=1")
    assert main([*map(str, imports), "--hold-out", "vgg16"]) == 0
    assert "note: no record of vgg16: it holds out nothing" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["kernel-tuner", "t4"])
def test_a_file_that_is_nested_too_deeply_is_one_line(form: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refusal = refused("import", form, tmp_path / "deep.json", "--out", tmp_path / "out.parquet")
    assert "deep.json is not JSON: nested too deeply" in refusal


@pytest.mark.parametrize(("change", "says"), [
    ({"tune_params_keys": ["block", "block"]}, "names a parameter twice"),
    ({"tune_params_keys": []}, "names no parameter"),
    ({"tune_params": {**VALUES, "tile": [[1]]}}, "whose tile is a list"),
    ({"tune_params_keys": [*VALUES, "a b"], "cache": {"1": {**dict.fromkeys(VALUES, 1), "a b": 1, "time": 1.0}}},
     "'a b' is no name")])
def test_a_cache_whose_parameters_make_no_sense_is_one_line_that_names_it_once(
        tmp_path: Path, change: dict[str, Any], says: str, refused: Refused) -> None:
    (tmp_path / "odd.json").write_text(json.dumps({**cache(), **change}))
    line = refused("import", "kernel-tuner", tmp_path / "odd.json", "--out", tmp_path / "out.parquet")
    assert says in line
    assert line.count("odd.json") == 1
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("form", ["parquet", "t4"])
@pytest.mark.parametrize("made", [True, False])
def test_a_journal_without_trials_is_one_line(tmp_path: Path, form: str, made: bool, refused: Refused) -> None:
    if made:
        Journal(tmp_path / "empty.sqlite").close()
    else:
        (tmp_path / "empty.sqlite").touch()
    assert "empty.sqlite holds no trials" in refused("export", "--format", form, "--journal", tmp_path / "empty.sqlite",
                 "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert bool((tmp_path / "empty.sqlite").stat().st_size) == made
