"""MIOpen's data: what is imported is what its files say, in our terms; what is exported is what MIOpen reads."""

from __future__ import annotations

import bz2
import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_export import best_of, entries, needs_table, override, user_text, write_udb
from seqtune.data.formats.miopen_import import read_files, solver_of, tables_of
from seqtune.data.record import Status
from seqtune.errors import ConfigurationError, DeviceError, FormatError, KernelError, MisuseError, SeqtuneError
from seqtune.kernels.declaration import from_json, to_json
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.miopen.solver import SOLVERS, find_solver
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import KERNELS, kernel
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.miopen_exchange import export_miopen, find_files, import_miopen
from tests.support.miopen_files import LABELS, MATRIX_LABELS, NEW_FIND, OLD_FIND, perf_db, perf_text

POINTWISE = "convnd n=32 c=64 h=28 w=28 k=256 r=1 s=1"
MI50 = device("gfx906_60")


def rows(data: Dataset) -> set[tuple[str, str, str]]:
    return set(data.rows[["problem", "kernel", "configuration"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("name", ["gfx906_60.db", "gfx906_60.db.bz2", "gfx906_60.HIP.3_3_0.udb.txt"])
def test_labels_are_read_from_every_form_of_perf_db(name: str, tmp_path: Path) -> None:
    path = (perf_text if name.endswith("txt") else perf_db)(tmp_path / name, LABELS)
    data, (report,) = read_files([path])
    assert report["device"] == "miopen:gfx906_60"
    assert (report["rows"], report["problems"], report["skipped"]) == (11, 7, {})
    assert (POINTWISE, "miopen.ConvAsm1x1U", '{"read_size":1,"k_mult":16,"chunks_per_wave":4,"chunk_size":16,'
            '"n_mult":1,"c_mult":2,"waves_c_in_group":1,"waves_k_in_group":2}') in rows(data)
    assert set(data.rows["status"]) == {"chosen"}
    assert np.isinf(data.rows["seconds"]).all()
    assert not (data.rows["status"] == "correct").any()


def test_channels_and_sizes_are_those_of_the_forward_convolution(tmp_path: Path) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)])
    keys = set(data.known_problems)
    assert "convnd n=32 c=64 h=28 w=28 k=256 r=1 s=1 direction=backward_data" in keys
    assert "convnd n=4 c=16 d=8 h=8 w=8 k=32 t=3 r=3 s=3 pad_d=1 pad_h=1 pad_w=1 layout=NCDHW" in keys


def test_an_ambiguous_size_is_unknown_rather_than_guessed(tmp_path: Path) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)])
    strided = [problem for problem in data.known_problems.values() if problem["stride_h"] == 2]
    assert len(strided) == 2
    for problem in strided:
        assert (problem["h"], problem["w"], problem["out_h"]) == (None, None, 28)
        assert problem.size("x_h") == 55  # the least


@pytest.mark.parametrize("text", [NEW_FIND, OLD_FIND])
def test_times_are_read_from_both_forms_of_find_db(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(text)
    data, (report,) = read_files([path])
    assert (report["kind"], report["skipped"], report["device"]) == ("find-db", {}, "miopen:gfx90878")
    asm = data.rows[data.rows["kernel"] == "miopen.ConvAsm1x1U"].iloc[0]
    assert (asm.problem, asm.status, asm.configuration, asm.workspace) == (POINTWISE, "correct", "{}", 0)
    assert asm.seconds == pytest.approx(0.5e-3)
    assert json.loads(data.provenance["miopen algorithms"])["ConvAsm1x1U"] == "Direct"
    if text is NEW_FIND:
        assert "convnd n=32 c=64 h=56 w=56 k=256 r=1 s=1 stride_h=2 stride_w=2 direction=backward_data" in (
            data.known_problems)
        assert set(data.rows["workspace"]) == {0, 4096, 8}


def test_a_data_set_of_labels_is_read_back_as_it_was_written(tmp_path: Path, monkeypatch: Any) -> None:
    data, _ = read_files([perf_db(tmp_path / "gfx906_60.db", LABELS),
                          perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    for most in (5_000, 0):  # with features in the metadata, and from the keys
        monkeypatch.setattr("seqtune.data.dataset.MANY_PROBLEMS", most)
        data.write(tmp_path / "labels.parquet")
        again = Dataset.read(tmp_path / "labels.parquet")
        assert rows(again) == rows(data)
        assert again.known_problems == data.known_problems
        assert again.devices == data.devices
        assert {record.measurement.status for record in again.records()} == {Status.CHOSEN}


def test_problems_as_columns_are_those_made_one_by_one() -> None:
    made = [Problem.make("convnd", n=n, c=8, h=None if n % 3 else n, w=n, k=4 * n, r=3, s=3, pad_h=1, pad_w=1,
                         stride_h=1 + n % 2, stride_w=1 + n % 2, out_h=n, direction="backward_weights")
            for n in range(4, 40)]
    columns = ProblemColumns.of(made)
    assert columns.problems() == [(problem.key, problem) for problem in made]
    for name in columns.values:
        single = [problem.names()[name] for problem in made]
        assert [value if known else None for value, known in
                zip(columns.values[name].tolist(), columns.known[name].tolist(), strict=True)] == single


def test_rows_that_make_no_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    good = "2x64x28x28x1x1x1x1x256x32x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
    path = perf_text(tmp_path / "gfx906_60.udb.txt", {
        good: {"ConvAsm1x1U": "1,16,4,16,1,2,1,3", "ConvAsm3x3U": "1,2", "ConvUnheardOf": "1",
               "ConvAsm1x1UV2": "x" * 9},
        good.replace("x64x", "x0x"): {"ConvAsm1x1U": "1,16,4,16,1,2,1,2"},
        good.replace("FP32", "FP99"): {"ConvAsm1x1U": "1,16,4,16,1,2,1,2"},
        good.replace("x1xNCHW", "x3xNCHW"): {"ConvAsm1x1U": "1,16,4,16,1,2,1,2"},
        "1x2x3": {"ConvAsm1x1U": "1"},
        good.replace("x32x", "x33x"): {"ConvAsm1x1U": "1,16,4,16,1,2,1,2"}})
    data, (report,) = read_files([path])
    assert len(data) == 1
    assert sum(report["skipped"].values()) == 8
    assert report["skipped"]["ConvUnheardOf: no search space is known"] == 1


HOSTILE = {
    "a view": ["DROP TABLE perf_db", "CREATE VIEW perf_db AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
               "FROM n) SELECT 'a' AS solver, i AS config, 'b' AS params FROM n"],
    "no table": ["DROP TABLE config"],
    "other columns": ["ALTER TABLE config DROP COLUMN bias"] if sqlite3.sqlite_version_info >= (3, 35) else [],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_data_base_that_is_no_perf_db_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    more = ["DROP INDEX idx_config", *HOSTILE[name]] if name == "other columns" else HOSTILE[name]
    path = perf_db(tmp_path / "gfx906_60.db", LABELS, more)
    with pytest.raises(FormatError, match=r"perf_db|config"):
        read_files([path])


def test_values_of_other_types_do_no_harm(tmp_path: Path) -> None:
    path = perf_db(tmp_path / "gfx906_60.db", LABELS, [
        "UPDATE config SET in_h = 'many' WHERE id = 1", "UPDATE config SET in_w = 9223372036854775807 WHERE id = 2",
        "UPDATE perf_db SET params = x'00ff' WHERE config = 3", "UPDATE perf_db SET config = 99 WHERE config = 4"])
    data, (report,) = read_files([path])
    assert len(data) == 11 - 2 - 1 - 1 - 1
    assert report["skipped"] == {"a label that is not made of words": 1, "a label without its problem": 4,
                                 "a problem that is not made of numbers and words": 2}


@pytest.mark.parametrize("content", [
    b"", b"nothing of MIOpen's", b"\0\1\2", b"SQLite format 3\0" + b"\xff" * 4000, b"BZh9 not at all",
    bz2.compress(b"k=v:" * 1000)[:-9], b"key=value\n" * 3])
def test_a_file_that_is_none_of_miopens_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "gfx906_60.db"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_files([path])
    assert "\n" not in str(caught.value)


def test_a_find_db_with_a_problem_left_out_keeps_each_time_with_its_solver(tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(NEW_FIND.replace("64-28-28-1x1", "999999999999-28-28-1x1", 1))
    data, (report,) = read_files([path])
    assert sum(report["skipped"].values()) == 2
    assert sorted(data.rows["kernel"]) == ["miopen.GemmBwd1x1_stride2", "miopen.GemmFwdRest"]


@pytest.mark.parametrize("time", ["1e-99", "1e99", "999999999999e33"])
def test_a_time_that_no_kernel_takes_is_left_out(time: str, tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(NEW_FIND.replace("0.5", time))
    data, (report,) = read_files([path])
    assert report["skipped"] == {"a time that no kernel takes": 1}
    assert np.isfinite(data.rows["seconds"]).all()
    assert (data.rows["seconds"] > 0).all()


def test_a_perf_db_without_labels_is_empty(tmp_path: Path, capsys: Any) -> None:
    path = perf_db(tmp_path / "gfx906_60.db", LABELS, ["DELETE FROM perf_db"])
    assert len(read_files([path])[0]) == 0
    assert main(["evaluate", "miopen", "--data", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("form", ["parquet", "miopen-text", "miopen-udb"])
def test_an_interrupted_import_or_export_leaves_nothing_half_written(form: str, tmp_path: Path, monkeypatch: Any,
                                                                     capsys: Any) -> None:
    source, out = perf_db(tmp_path / "gfx906_60.db", LABELS), tmp_path / "labels.parquet"
    asked = ["import", "miopen", str(source), "--out", str(out)]
    if form != "parquet":
        assert main(asked) == 0
        asked, out = ["export", "--format", form, "--data", str(out), "--out", str(tmp_path / "out")], tmp_path / "out"
    before = sorted(tmp_path.iterdir())

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    assert main(asked) == 1
    assert sorted(tmp_path.iterdir()) == before
    monkeypatch.undo()
    assert main(asked) == 0
    assert out.exists()
    capsys.readouterr()


def test_what_was_compressed_in_parts_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt.bz2"
    path.write_bytes(b"".join(bz2.compress(line.encode()) for line in NEW_FIND.splitlines(keepends=True)))
    assert len(read_files([path])[0]) == 4


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("seqtune.data.formats.miopen_files.LARGEST_CONTENT", 1_000_000)
    path = tmp_path / "gfx906_60.db.bz2"
    path.write_bytes(bz2.compress(bytes(2_000_000)))
    with pytest.raises(FormatError, match="unpacks to more"):
        read_files([path])


def test_a_gpu_is_told_by_the_name_of_its_file_or_by_the_user(tmp_path: Path) -> None:
    assert (device("gfx906_60").compute_units, device("gfx90878").compute_units) == (60, 120)
    assert (device("gfx942130").compute_units, device("miopen:gfx1030_36").compute_units) == (304, 72)
    told = device("gfx1201_32 compute_units=64 local_memory=32768 wave_size=32")
    assert (told.compute_units, told.local_memory, dict(told.extra)["wave_size"]) == (64, 32768, 32)
    assert (device("gfx1100_48").compute_units, device("gfx1201_32").compute_units) == (96, 64)  # pairs, too
    for words in ("mygpu", "gfx906", "gfx906_60 hats=3", "gfx906_60 compute_units=lots", "gfx77_1", "", "gfx906_60 x",
                  "gfx906_60 backend=cuda", "gfx906_60 name=x"):
        with pytest.raises(DeviceError):
            device(words)
    path = perf_text(tmp_path / "mine.txt", LABELS)
    with pytest.raises(DeviceError, match="tells no GPU"):
        read_files([path])
    assert read_files([path], [MI50])[1][0]["device"] == "miopen:gfx906_60"
    named = perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)
    with pytest.raises(DeviceError, match="none of the files is of miopen:gfx900_56"):
        read_files([named], [device("gfx900_56")])


def test_of_several_times_of_one_solver_the_least_counts(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("gfx90878.HIP.fdb.txt", "gfx90878.HIP.ufdb.txt")]
    for path, text in zip(paths, (NEW_FIND, NEW_FIND.replace("0.5,", "0.4,").replace(":0.25", ":0.3")), strict=True):
        path.write_text(text)
    rows = read_files(paths)[0].rows.set_index("kernel")["seconds"]
    assert rows["miopen.ConvAsm1x1U"] == pytest.approx(0.4e-3)
    assert rows["miopen.GemmFwd1x1_0_1"] == pytest.approx(0.25e-3)


def test_every_solver_declares_a_kernel_that_files_can_carry() -> None:
    for name in SOLVERS:
        found = kernel(f"miopen.{name}")
        assert from_json(to_json(found)) == found
        assert all(constraint.reason for constraint in (*found.constraints, *found.solves, *found.prior))
    assert not any(name.startswith("miopen.") for name in KERNELS)
    with pytest.raises(KernelError, match="ConvAsm1x1U"):
        kernel("miopen.ConvNone")


def test_a_problem_has_the_spaces_of_the_solvers_that_apply() -> None:
    problem = Problem.make("convnd", n=32, c=64, h=56, w=56, k=64, r=3, s=3, pad_h=1, pad_w=1)
    names = {space.kernel.name for space in spaces_for(problem, MI50)}
    assert {"miopen.ConvAsm3x3U", "miopen.ConvOclDirectFwd", "miopen.ConvMlirIgemmFwd"} <= names
    assert "miopen.ConvAsm1x1U" not in names
    for space in spaces_for(problem, MI50):
        assert space.default in space


def test_what_the_tuner_keeps_to_is_a_part_of_the_space() -> None:
    problem = Problem.make("convnd", n=32, c=64, h=28, w=28, k=256, r=1, s=1)
    kernel = find_solver("ConvAsm1x1U").kernel
    whole, narrow = (SearchSpace(one, problem, MI50) for one in (kernel, kernel.kept_to_prior()))
    assert 0 < len(narrow) < len(whole)
    assert all(one in whole for one in narrow.sample(np.random.default_rng(0), 20))


def test_a_solver_with_a_table_has_a_space_of_the_rows_that_were_seen(tmp_path: Path) -> None:
    name = "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC"
    data, (report,) = read_files([perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    assert report["skipped"] == {}
    solver = solver_of(data, name)
    place = next(iter(data.devices.values()))
    for problem in data.problems():
        space = SearchSpace(solver.kernel, problem, place)
        assert {(one["row"], one["gks"] > 0) for one in space} == {(7, False), (9, True)}  # type: ignore[operator]
    assert from_json(to_json(solver.kernel)) == solver.kernel
    with pytest.raises(KernelError, match="table"):
        entries(best_of(data, place), place)


def test_what_is_exported_is_read_back(tmp_path: Path) -> None:
    for base, labels in (("gfx906_60", LABELS), ("gfx942130", MATRIX_LABELS)):
        data, _ = read_files([perf_db(tmp_path / f"{base}.db", labels)])
        place = next(iter(data.devices.values()))
        found = entries(best_of(data, place), place, tables_of(data))
        wanted = {(key, solver): params for key, some in labels.items() for solver, params in some.items()}
        wrote = {(one.key, one.solver): one.params for one in found}
        for ours, theirs in (("16,16,32,32,2,2,2,4,1", "16,16,32,32,2,2,2,4,2"),):  # stacks: MIOpen takes one anyway
            wanted = {place: ours if params == theirs else params for place, params in wanted.items()}
        assert wrote == wanted
        (tmp_path / f"{base}.HIP.udb.txt").write_text(user_text(found))
        write_udb(found, tmp_path / f"{base}_1.1.0.udb")
        for name in (f"{base}.HIP.udb.txt", f"{base}_1.1.0.udb"):
            assert rows(read_files([tmp_path / name])[0]) == rows(data)


def test_nothing_outside_of_its_space_is_written() -> None:
    problem = Problem.make("conv2d", n=32, c=64, h=28, w=28, k=256, r=1, s=1)
    fine = dict(find_solver("ConvAsm1x1U").kernel.default)
    (one,) = entries([(problem, Configuration.of("miopen.ConvAsm1x1U", fine))], MI50)
    assert one.key == next(iter(LABELS))
    assert override([one]) == f"ConvAsm1x1U;{one.params}"
    for wrong in ({**fine, "k_mult": 5}, {**fine, "c_mult": 32, "k_mult": 32}, {"k_mult": 4}, {**fine, "more": 1}):
        with pytest.raises(ConfigurationError):
            entries([(problem, Configuration.of("miopen.ConvAsm1x1U", wrong))], MI50)
    wide = Problem.make("conv2d", n=32, c=64, h=28, w=28, k=256, r=3, s=3, activation="relu")
    for other in (wide, Problem.make("gemm", m=1, n=1, k=1)):
        with pytest.raises(SeqtuneError):
            entries([(other, Configuration.of("miopen.ConvAsm1x1U", fine))], MI50)
    with pytest.raises(FormatError, match="one problem"):
        override([])


def test_the_command_line_imports_and_exports(tmp_path: Path, capsys: Any) -> None:
    perf_db(tmp_path / "gfx906_60.db.bz2", LABELS)
    (tmp_path / "gfx906_60.db").unlink()
    out = tmp_path / "labels.parquet"
    assert main(["import", "miopen", str(tmp_path), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 11
    assert main(["import", "miopen", str(tmp_path), "--out", str(out)]) == 2
    assert main(["import", "cudnn", str(tmp_path), "--out", str(out)]) == 2
    for form in ("miopen-text", "miopen-udb"):
        to = tmp_path / form
        assert main(["export", "--format", form, "--data", str(out), "--out", str(to), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["entries"] == 11
        assert rows(read_files([to], [MI50])[0]) == rows(Dataset.read(out))
    assert main(["export", "--format", "miopen-override", "--data", str(out), "--out", str(tmp_path / "o")]) == 2
    assert main(["export", "--format", "hats", "--data", str(out), "--out", str(tmp_path / "o")]) == 2
    capsys.readouterr()
    assert main(["export", "--format", "miopen-text", "--data", str(out), "--device", "gfx900_56",
                 "--out", str(tmp_path / "o")]) == 2
    assert "nothing is recorded of miopen:gfx900_56; the data set has miopen:gfx906_60" in capsys.readouterr().err


def test_predictions_are_exported(tmp_path: Path) -> None:
    configuration = dict(find_solver("ConvAsm1x1U").kernel.default)
    problem = Problem.make("convnd", n=32, c=64, h=28, w=28, k=256, r=1, s=1)
    line = {"problem": problem.to_json(), "device": "miopen:gfx906_60",
            "candidates": [{"kernel": "miopen.ConvAsm1x1U", "configuration": configuration},
                           {"kernel": "miopen.ConvAsm1x1U", "configuration": {**configuration, "n_mult": 2}}]}
    (tmp_path / "predictions.jsonl").write_text(json.dumps(line))
    report = export_miopen(tmp_path / "out", "miopen-override", predictions=tmp_path / "predictions.jsonl")
    assert (report["problems"], report["entries"], report["left_out"]) == (1, 1, 1)
    assert (tmp_path / "out").read_text() == "ConvAsm1x1U;1,16,1,16,1,1,1,2\n"
    (tmp_path / "bad.jsonl").write_text('{"problem": 3}')
    with pytest.raises(FormatError, match=r"bad\.jsonl:1"):
        export_miopen(tmp_path / "other", "miopen-text", predictions=tmp_path / "bad.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(FormatError, match="holds no prediction"):
        export_miopen(tmp_path / "other", "miopen-text", predictions=tmp_path / "empty.jsonl")
    with pytest.raises(MisuseError, match="name what to export"):
        export_miopen(tmp_path / "other", "miopen-text")


def test_predictions_of_rows_are_exported_with_the_checkpoints_table(tmp_path: Path, monkeypatch: Any) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    place = next(iter(data.devices.values()))
    chosen = [(problem, one) for problem, one in best_of(data, place) if needs_table(one)]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(
        {"problem": problem.to_json(), "device": place.name,
         "candidates": [{"kernel": one.kernel, "configuration": dict(one.settings)}]}) + "\n"
        for problem, one in chosen))
    tables = tables_of(data)
    monkeypatch.setattr("seqtune.miopen_exchange.load_labels",
                        lambda name: SimpleNamespace(tables=tables if name == "mine" else {}))
    asked: dict[str, Any] = {"form": "miopen-text", "predictions": tmp_path / "predictions.jsonl"}
    with pytest.raises(KernelError, match="--checkpoint"):
        export_miopen(tmp_path / "out", **asked)
    report = export_miopen(tmp_path / "out", checkpoint="mine", **asked)
    assert (report["entries"], report["left_out"]) == (len(chosen), 0)
    assert (tmp_path / "out").read_text() == user_text(entries(chosen, place, tables))


def test_miopens_kernels_are_not_measured_here() -> None:
    with pytest.raises(SeqtuneError, match="cannot be run here"):
        seqtune.predict("conv2d c=64 h=28 k=256 r=1", device="miopen:gfx906_60", verify=True)
    with pytest.raises(MisuseError, match="cannot be run here"):
        seqtune.tune("conv2d c=64 h=28 k=256 r=1", device="miopen:gfx906_60")
    with pytest.raises(DeviceError, match="miopen:gfx906_60"):
        seqtune.predict("conv2d c=64 h=28 k=256 r=1", device="gfx906_60")


def test_every_form_of_file_is_found_in_a_folder(tmp_path: Path) -> None:
    names = {"gfx906_60.db", "gfx906_60.db.bz2", "gfx906_60.db.txt", "gfx906_60.HIP.fdb.txt", "gfx906_60_1.1.0.udb",
             "gfx906_60.HIP.fdb.txt.bz2", "gfx906_60.HIP.3_3_0.udb.txt", "gfx906_60.HIP.3_3_0.ufdb.txt"}
    for name in (*names, "gfx906_60.kdb", "notes.txt"):
        (tmp_path / name).touch()
    assert {path.name for path in find_files([tmp_path])} == names


def test_what_is_no_file_of_miopens_is_called_what_it_is(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "labels.parquet").touch()
    for name, says in (("gfx906_60.db", "no such file"), ("nowhere", "no such file"), ("labels.parquet", "data set")):
        for asked in (["import", "miopen", str(tmp_path / name), "--out", str(tmp_path / "out.parquet")],
                      ["evaluate", "miopen", "--data", str(tmp_path / name)]):
            assert main(asked) == 2
            assert says in capsys.readouterr().err
    for form in ("t4", "miopen-udb"):
        assert main(["export", "--format", "miopen-foo", "--data", "x", "--out", str(tmp_path / "out")]) == 2
        assert form in capsys.readouterr().err


def test_a_guess_at_a_gpu_is_noted_unless_the_user_tells_its_facts(tmp_path: Path, capsys: Any) -> None:
    path = perf_text(tmp_path / "gfx1201_32.udb.txt", LABELS)
    asked = ["import", "miopen", str(path), "--force", "--out", str(tmp_path / "out.parquet")]
    for more, notes in ((), 1), (("--device", "gfx1201_32"), 1), (("--device", "gfx1201_32 compute_units=64"), 0):
        assert main([*asked, *more]) == 0
        said = capsys.readouterr().err
        assert said.count("\n") == said.count("'gfx1201_32 compute_units=64' tells them") == notes
    assert main([*asked, "--device", "gfx906_60"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no file of MIOpen's"):
        import_miopen([tmp_path], tmp_path / "out.parquet")


@pytest.mark.parametrize("command", [
    ["evaluate", "DATA"], ["evaluate", "DATA", "--checkpoint", "miopen"], ["replay", "DATA"],
    ["retrain", "default", "DATA", "--out", "NEW"],
    ["retrain", "default", "shipped", "--rehearse", "DATA", "--out", "NEW"], ["tune", POINTWISE, "--replay", "DATA"]])
def test_labels_are_not_taken_for_measurements(command: list[str], tmp_path: Path, capsys: Any) -> None:
    places = {"DATA": str(tmp_path / "labels.parquet"), "NEW": str(tmp_path / "new")}
    read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)])[0].write(places["DATA"])
    assert main([places.get(word, word) for word in command]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "holds MIOpen's labels: `seqtune train` learns from them, and `seqtune evaluate miopen" in said
    assert not (tmp_path / "new").exists()
