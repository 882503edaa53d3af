"""MIOpen's files through the front: import, export, predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.api.exchanging import export, import_data
from seqtune.data.dataset import Dataset
from seqtune.data.formats.table import format_of
from seqtune.errors import DeviceError, KernelError, MisuseError, SeqtuneError
from seqtune.integrations.miopen.formats.export import best_of, entries, needs_table, user_text
from seqtune.integrations.miopen.formats.importing import read_files, tables_of
from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.predictor.learned import LearnedLabels
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import skip_without
from tests.support.miopen_files import LABELS, MATRIX_LABELS, NEW_FIND, perf_db, perf_text

POINTWISE = "convnd n=32 c=64 h=28 w=28 k=256 r=1 s=1"
MI50 = device("gfx906_60")


def rows(data: Dataset) -> set[tuple[str, str, str]]:
    return set(data.rows[["problem", "kernel", "configuration"]].itertuples(index=False, name=None))


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
    with pytest.raises(DeviceError, match="contains no GPU"):
        read_files([path])
    assert read_files([path], [MI50])[1][0]["device"] == "miopen:gfx906_60"
    named = perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)
    with pytest.raises(DeviceError, match="none of the files is of miopen:gfx900_56"):
        read_files([named], [device("gfx900_56")])


def test_the_command_line_imports_and_exports(tmp_path: Path, run: Run, refused: Refused) -> None:
    perf_db(tmp_path / "gfx906_60.db.bz2", LABELS)
    (tmp_path / "gfx906_60.db").unlink()
    out = tmp_path / "labels.parquet"
    assert run("import", "miopen", tmp_path, "--out", out)["records"] == 11
    for form in ("miopen", "cudnn"):
        refused("import", form, tmp_path, "--out", out)
    for form in ("miopen-text", "miopen-udb"):
        to = tmp_path / form
        assert run("export", "--format", form, "--data", out, "--out", to)["entries"] == 11
        assert rows(read_files([to], [MI50])[0]) == rows(Dataset.read(out))
    export_all = ["export", "--data", out, "--out", tmp_path / "o", "--format"]
    for words, says in ((["miopen-override"], "an override is for one problem"), (["hats"], "no format 'hats'"),
                        (["miopen-text", "--device", "gfx900_56"],
                         "no rows of miopen:gfx900_56; the data set has miopen:gfx906_60")):
        assert says in refused(*export_all, *words)


@pytest.mark.parametrize(("item", "reason"), [
    ("ConvAsm1x1U:-1,0,miopenConvolutionFwdAlgoDirect", "a time of '-1'"),
    ("ConvAsm1x1U:1,16,1,16,2,2,1,4", "an item that is not MIOpen's"),
    ("miopenConvolutionFwdAlgoDirect:ConvAsm1x1U,x,0,miopenConvolutionFwdAlgoDirect,<unused>", "a time of 'x'")])
def test_a_find_db_without_a_usable_time_is_left_out_with_its_reason(item: str, reason: str, tmp_path: Path,
                                                                     capsys: Any) -> None:
    bad, good = tmp_path / "gfx906_60.f.fdb.txt", tmp_path / "gfx906_64.fdb.txt"
    bad.write_text(f"{NEW_FIND.partition('=')[0]}={item}\n")
    good.write_text(NEW_FIND)
    out = tmp_path / "times.parquet"
    assert main(["import", "miopen", str(bad), "--out", str(out)]) == 2
    assert (not out.exists(), capsys.readouterr().err.count("\n")) == (True, 1)
    with pytest.raises(MisuseError, match=rf"no usable time .*left out 1: {reason}"):
        import_data("miopen", [bad], out)
    files = import_data("miopen", [bad, good], out).report["files"]
    assert [(file["kind"], file["rows"]) for file in files] == [("find-db", 0), ("find-db", 4)]
    assert files[0]["skipped"] == {reason: 1}


def test_predictions_of_rows_are_exported_with_the_checkpoints_table(tmp_path: Path) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    gpu = next(iter(data.devices.values()))
    chosen = [(problem, best) for problem, best in best_of(data, gpu) if needs_table(best)]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(
        {"problem": problem.to_json(), "device": gpu.name,
         "candidates": [{"kernel": best.kernel, "configuration": dict(best.settings)}]}) + "\n"
        for problem, best in chosen))
    tables = tables_of(data)
    expected = user_text(entries(chosen, gpu, tables))
    write = format_of("miopen-text", "write").write
    assert write is not None
    asked: dict[str, Any] = {"data": None, "predictions": tmp_path / "predictions.jsonl", "device": None,
                             "checkpoint": "miopen"}
    with pytest.raises(KernelError, match="--checkpoint"):
        write(tmp_path / "out", **asked, learned_tables=lambda checkpoint: {})
    report = write(tmp_path / "out", **asked, learned_tables=lambda checkpoint: tables)
    assert (report["entries"], report["left_out"]) == (len(chosen), 0)
    assert (tmp_path / "out").read_text() == expected

    shipped = Checkpoint.load("miopen")
    assert isinstance(shipped.labels, LearnedLabels)
    without, saved = (replace(shipped, labels=replace(shipped.labels, chains=None, tables=rows)).save(tmp_path / name)
                      for name, rows in (("without", {}), ("saved", tables)))
    with pytest.raises(KernelError, match="--checkpoint"):
        export(tmp_path / "exported", "miopen-text", predictions=tmp_path / "predictions.jsonl", checkpoint=without)
    export(tmp_path / "exported", "miopen-text", predictions=tmp_path / "predictions.jsonl", checkpoint=saved)
    assert (tmp_path / "exported").read_text() == expected


def test_miopens_kernels_are_not_measured_here() -> None:
    with pytest.raises(SeqtuneError, match="cannot be run here"):
        seqtune.predict("conv2d c=64 h=28 k=256 r=1", device="miopen:gfx906_60", verify=True)
    with pytest.raises(MisuseError, match="cannot be run here"):
        seqtune.tune("conv2d c=64 h=28 k=256 r=1", device="miopen:gfx906_60")
    with pytest.raises(DeviceError, match="miopen:gfx906_60"):
        seqtune.predict("conv2d c=64 h=28 k=256 r=1", device="gfx906_60")


@pytest.mark.parametrize("command", [
    ["evaluate", "DATA", "--checkpoint", "default"], ["replay", "DATA"], ["retrain", "default", "DATA", "--out", "NEW"],
    ["retrain", "default", "shipped", "--rehearse", "DATA", "--out", "NEW"], ["tune", POINTWISE, "--replay", "DATA"]])
def test_labels_are_not_taken_for_measurements(command: list[str], tmp_path: Path, refused: Refused) -> None:
    if command[0] == "retrain":
        skip_without("torch")
    places = {"DATA": str(tmp_path / "labels.parquet"), "NEW": str(tmp_path / "new")}
    read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS)])[0].write(places["DATA"])
    said = refused(*(places.get(word, word) for word in command))
    assert "labels.parquet" in said
    assert "the checkpoint default does not fit" in said or "not measurements to search among" in said
    assert not (tmp_path / "new").exists()
