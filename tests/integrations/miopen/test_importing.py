"""MIOpen's data: what is imported is what its files say, in our terms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.record import Status
from seqtune.integrations.miopen.formats.importing import read_files
from tests.support.miopen_files import LABELS, MATRIX_LABELS, NEW_FIND, OLD_FIND, perf_db, perf_text

POINTWISE = "convnd n=32 c=64 h=28 w=28 k=256 r=1 s=1"


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


def test_of_several_labels_of_a_problem_the_users_counts_and_else_the_first(tmp_path: Path) -> None:
    key = "2x1024x32x32x1x3x3x1x512x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvBinWinogradRxSf3x2:"
    system, user = tmp_path / "gfx942130.db.txt", tmp_path / "gfx942130.HIP.3_3_0.udb.txt"
    system.write_text(f"{key}74\n{key}66\n")
    user.write_text(f"{key}70\n")
    for files, groups, left_out in (([system], 74, [1]), ([system, user], 70, [2, 0]), ([user, system], 70, [0, 2])):
        data, reports = read_files(files)
        assert [configuration for *_, configuration in rows(data)] == [f'{{"n_groups":{groups}}}']
        assert [sum(report["skipped"].values()) for report in reports] == left_out


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


def test_a_data_set_of_labels_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    data, _ = read_files([perf_db(tmp_path / "gfx906_60.db", LABELS),
                          perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    for most in (5_000, 0):  # with features in the metadata, and from the keys
        data.write(tmp_path / "labels.parquet", most)
        again = Dataset.read(tmp_path / "labels.parquet")
        assert rows(again) == rows(data)
        assert again.known_problems == data.known_problems
        assert again.devices == data.devices
        assert {record.measurement.status for record in again.records()} == {Status.CHOSEN}


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


FOUND = "64-28-28-3x3-64-28-28-8-1x1-1x1-1x1-0-NCHW-FP32-F=GemmFwdRest:0.01,0,miopenConvolutionFwdAlgoGEMM"


@pytest.mark.parametrize(("before", "after", "reason"), [
    *(("FP32-F", f"{word}-F", f"element types {word} are not known here") for word in (
        "INT8INT8INT32", "BF8FP8FP16", "FP8", "FP64", "TF32", "INT8INT8FP32")),
    ("FP32-F", "FP16-F_ciFP8", "element types FP16_ciFP8 are not known here"),
    ("FP32-F", "BF8FP8FP16-B_cwFP8", "element types BF8FP8FP16_cwFP8 are not known here"),
    ("FP32-F", "FP16-F_g4_ciFP8_cwFP8", "element types FP16_ciFP8_cwFP8 are not known here"),
    ("NCHW", "CHWN-CHWN-CHWN", "the layout CHWN is not known here"),
    ("NCHW", "NCHWc4", "the layout NCHWc4 is not known here"),
    ("NCHW", "NHWC-NCHW-NCHW", "the layout NHWC-NCHW-NCHW is not known here"),
    ("FP32-F", "FP32-X", "the direction X is not known here"),
    ("-8-1x1", "-0-1x1", "a problem whose n=0 is outside 1..1048576 (batch)"),
    ("-1x1-0-", "-0x0-0-", "a problem whose dilation_h=0 is outside 1..1048576 (step between filter rows)"),
    ("GemmFwdRest", "Gemm Fwd Rest", "'Gemm Fwd Rest' is no name of a solver"),
    ("GemmFwdRest", "", "'' is no name of a solver"), (":0.01,", ":nan,", "a time of 'nan'"),
    (":0.01,", ":-1,", "a time of '-1'"), ("GemmFwdRest:0.01,0,miopenConvolutionFwdAlgoGEMM", "",
                                           "a problem without solvers")])
def test_the_reason_why_a_row_is_left_out_names_the_word(before: str, after: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "gfx942130.HIP.fdb.txt"
    odd = FOUND.replace(before, after)
    path.write_text(f"{FOUND}\n{odd}\n{odd}\n")
    data, (report,) = read_files([path])
    assert len(data) == 1
    assert report["skipped"] == {reason: 2}


@pytest.mark.parametrize("time", ["1e-99", "1e99", "999999999999e33"])
def test_a_time_that_no_kernel_takes_is_left_out(time: str, tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(NEW_FIND.replace("0.5", time))
    data, (report,) = read_files([path])
    assert report["skipped"] == {"a time that no kernel takes": 1}
    assert np.isfinite(data.rows["seconds"]).all()
    assert (data.rows["seconds"] > 0).all()
