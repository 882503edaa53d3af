"""Bad input through the real command line: one clear line, exit code 2, nothing on stdout, nothing written."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support.command_line import Refused
from tests.support.installation.optional import TRAINING, skip_without
from tests.support.records import space_records, write_journal
from tests.support.untrained import save

DEVICE = Device("llvm:sse:1", "llvm", "x86-64", "sse", threads=1, toolchain="test")
PROBLEM = Problem.make("gemm", m=16, n=16, k=16)
GEMM = ["gemm", "m=16", "n=16", "k=16"]
CONV = ["conv2d", "c=64", "h=56", "w=56", "k=64", "r=3", "s=3"]


def edited(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """A JSON file with something changed."""
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good file of each kind and many bad ones."""
    folder = tmp_path_factory.mktemp("bad")
    space = SearchSpace(kernel("llvm.gemm"), PROBLEM, DEVICE)
    records = space_records(space, [1e-6 * (row + 1) for row in range(20)])
    with Journal(write_journal(folder / "good.sqlite", records, DEVICE)) as journal:
        Dataset.from_journal(journal).write(folder / "good.parquet")
    whole = sqlite3.connect(folder / "good.sqlite")
    whole.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole.close()
    content = (folder / "good.sqlite").read_bytes()
    (folder / "truncated.sqlite").write_bytes(content[:len(content) // 2])
    (folder / "stub.sqlite").write_bytes(content[:50])
    (folder / "text.sqlite").write_text("problem,seconds\nconv2d,1\n")
    (folder / "garbled.sqlite").write_bytes(content[:200] + b"\xff" * (len(content) - 200))
    foreign = sqlite3.connect(folder / "foreign.sqlite")
    foreign.execute("CREATE TABLE trials (a, b)")
    foreign.commit()
    foreign.close()
    shutil.copy(folder / "good.sqlite", folder / "newer.sqlite")
    newer = sqlite3.connect(folder / "newer.sqlite")
    newer.execute("PRAGMA user_version = 99")
    newer.commit()
    newer.execute("PRAGMA journal_mode = DELETE")
    newer.close()

    parquet = (folder / "good.parquet").read_bytes()
    (folder / "truncated.parquet").write_bytes(parquet[:len(parquet) // 2])
    (folder / "text.parquet").write_text("not parquet at all")
    (folder / "empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"x": [1, 2], "y": ["a", "b"]}), folder / "foreign.parquet")
    good = pq.read_table(folder / "good.parquet")
    metadata = json.loads(good.schema.metadata[b"seqtune"])
    pq.write_table(good.drop_columns(["seconds"]), folder / "column.parquet")
    later = good.replace_schema_metadata({"seqtune": json.dumps({**metadata, "version": 99})})
    pq.write_table(later, folder / "newer.parquet")
    strange = good.set_column(good.schema.get_field_index("status"), "status", pa.array(["fine"] * len(good)))
    pq.write_table(strange, folder / "status.parquet")
    lost = good.replace_schema_metadata({"seqtune": json.dumps({**metadata, "devices": {}})})
    pq.write_table(lost, folder / "device.parquet")

    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_text("n,c,h,w,k,r,s\n")
    (folder / "column.csv").write_text("n,c,h,w,r,s\n1,64,56,56,3,3\n")
    (folder / "unknown.csv").write_text("n,c,h,w,k,r,s,colour\n1,64,56,56,64,3,3,7\n")
    (folder / "ragged.csv").write_text("n,c,h,w,k,r,s\n1,64,56,56,64,3\n")
    (folder / "words.csv").write_text("n,c,h,w,k,r,s\n1,many,56,56,64,3,3\n")
    (folder / "latin.csv").write_bytes("n,c,h,w,k,r,s,name\n1,64,56,56,64,3,3,größe\n".encode("latin-1"))
    (folder / "utf16.csv").write_bytes("n,c,h,w,k,r,s\n1,64,56,56,64,3,3\n".encode("utf-16"))
    (folder / "lines.txt").write_text("gemm m=4 n=4 k=4\ngemm m=4 n=4\n")
    with (folder / "quote.csv").open("w") as file:
        csv.writer(file).writerow(["c", "h", "w", "k", "r", "s"])
        file.write('64,56,56,64,3,"3\n')

    save(folder / "good", DEVICE)
    save(folder / "lacking", DEVICE, "llvm.direct")
    save(folder / "opencl", DEVICE, "opencl.gemm")
    (folder / "hollow").mkdir()
    for name in ("vocabulary", "values", "cut", "shapes", "nan"):
        shutil.copytree(folder / "good", folder / name)
    edited(folder / "vocabulary" / "seqtune.json", lambda found: found["vocabulary"]["targets"].pop())  # type: ignore[index]
    edited(folder / "values" / "seqtune.json", lambda found: [
        family.update(version=99) for family in found["kernels"] if family["name"] == "llvm.gemm"])  # type: ignore[attr-defined]
    weights = folder / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    tensors = load_file(folder / "good" / "model.safetensors")
    name = next(iter(tensors))
    save_file({**tensors, name: np.zeros((3, 3), np.float32)}, folder / "shapes" / "model.safetensors")
    floats = next(name for name, tensor in tensors.items() if tensor.dtype == np.float32)
    save_file({**tensors, floats: np.full_like(tensors[floats], np.nan)}, folder / "nan" / "model.safetensors")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "file").write_text("x")
    return folder


NESTED = '{"type": "gemm", "m": [[16]], "n": 16, "k": 16}'
BAD: dict[str, tuple[list[str], str]] = {  # what is bad -> arguments ({} is the folder), what the line must say
    "no problem": (["predict"], "no problem given"),
    "an empty problem": (["predict", ""], "problem"),
    "a strange type": (["predict", "conv9d", "c=1"], "conv9d"),
    "a negative size": (["predict", *CONV, "n=-1"], "n=-1"),
    "a zero size": (["predict", *CONV, "n=0"], "n=0"),
    "a zero stride": (["predict", *CONV, "stride=0"], "stride_h=0"),
    "a negative padding": (["predict", *CONV, "pad=-1"], "pad_h=-1"),
    "a zero dilation": (["predict", *CONV, "dilation=0"], "dilation_h=0"),
    "text where a number goes": (["predict", "gemm", "m=many", "n=16", "k=16"], "m=many"),
    "a fraction of a size": (["predict", "gemm", "m=1.5", "n=16", "k=16"], "m=1.5"),
    "a size of nan": (["predict", "gemm", "m=nan", "n=16", "k=16"], "m=nan"),
    "an infinite tolerance": (["predict", *GEMM, "tolerance=1e999"], "tolerance"),
    "a negative tolerance": (["predict", *GEMM, "tolerance=-1"], "tolerance"),
    "groups that do not divide": (["predict", *CONV, "groups=3"], "groups must divide"),
    "a filter larger than the input": (["predict", "conv2d", "c=8", "h=2", "w=2", "k=8", "r=5", "s=5"], "filter"),
    "a huge size": (["predict", *CONV, "n=99999999999999999999999999"], "n=9999"),
    "a huge tensor": (["predict", "conv2d", "n=1048576", "c=1048576", "size=1048576", "k=2", "r=1"], "2^60"),
    "a missing feature": (["predict", "gemm", "m=16", "n=16"], "needs k"),
    "an unknown feature": (["predict", *GEMM, "colour=7"], "colour"),
    "a feature given twice": (["predict", *GEMM, "m=17"], "twice"),
    "a word without a value": (["predict", *GEMM, "bias"], "bias"),
    "an unknown data type": (["predict", *GEMM, "dtype=fp7"], "fp7"),
    "an unsolved data type": (["predict", *GEMM, "dtype=fp16"], "fp32 only"),
    "an unsolved direction": (["predict", *CONV, "direction=backward_data"], "forward"),
    "an unknown size": (["predict", "gemm", "m=unknown", "n=16", "k=16"], "m"),
    "broken JSON": (["predict", '{"type": "gemm", "m": 16'], "not JSON"),
    "JSON with a list in it": (["predict", NESTED], "'m'"),
    "JSON with NaN in it": (["predict", '{"type": "gemm", "m": NaN, "n": 16, "k": 16}'], "m=nan"),
    "JSON nested deeply": (["predict", '{"m": ' * 5000], "JSON"),
    "an unclosed quote": (["predict", "gemm m='16 n=16 k=16"], "quot"),
    "a MIOpenDriver line without sizes": (["predict", "conv", "-n", "1"], "needs -c"),
    "a MIOpenDriver line in 3D": (
        ["predict", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 --spatial_dim 3"], "spatial_dim"),
    "a strange MIOpenDriver option": (["predict", "conv", "-n", "1", "-Y", "3"], "'-Y'"),
    "an unknown backend": (["predict", *GEMM, "--device", "abacus:0"], "abacus:0"),
    "an unknown device": (["predict", *GEMM, "--device", "llvm:999"], "llvm:999"),
    "an unknown instruction set": (["predict", *GEMM, "--device", "llvm:mmx"], "llvm:mmx"),
    "an empty device": (["predict", *GEMM, "--device", ""], "device"),
    "no candidates": (["predict", *GEMM, "--top", "0"], "--top"),
    "too many to compare": (["predict", *GEMM, "--top", "51", "--verify"], "at most 50"),
    "a confidence above 1": (["predict", *GEMM, "--min-confidence", "95"], "min_confidence=95"),
    "no confidence": (["predict", *GEMM, "--min-confidence", "0"], "min_confidence=0"),
    "a word as a count": (["predict", *GEMM, "--top", "few"], "--top"),
    "an unknown option": (["predict", *GEMM, "--tpo", "5"], "--tpo"),
    "an option without its value": (["predict", *GEMM, "--device"], "--device"),
    "a budget of nothing": (["predict", *GEMM, "--verify", "--seconds", "0"], "seconds"),
    "a budget of nan": (["predict", *GEMM, "--verify", "--seconds", "nan"], "seconds"),
    "a relu that is neither": (["predict", *GEMM, "relu=maybe"], "relu"),
    "a name twice in JSON": (["predict", '{"type": "gemm", "m": 1, "n": 2, "k": 3, "m": 4}'], "given twice"),
    "a pipe as a journal": (["tune", *GEMM, "--trials", "3", "--journal", "{}/pipe"], "no regular file"),
    "a pipe as an output": (
        ["export", "--out", "{}/pipe", "--force", "--journal", "{}/good.sqlite"], "not a regular file"),
    "a folder as a journal of evidence": (["predict", *GEMM, "--journal", "{}"], "is a folder, not a journal"),
    "a journal in no folder": (["tune", *GEMM, "--trials", "3", "--journal", "{}/none/j.sqlite"], "does not exist"),
    "a journal where none can be made": (
        ["tune", *GEMM, "--trials", "3", "--journal", "/proc/journal.sqlite"], "--journal PATH names"),
    "a training kept in a file": (
        ["train", "{}/good.parquet", "--out", "{}/new", "--state", "{}/file"], "not a folder"),
    "a demonstration without time": (["demo", "--seconds", "0"], "seconds"),
    "a demonstration without checkpoint": (["demo", "--checkpoint", "{}/nowhere"], "nowhere"),
    "no command": ([], "no command given"),
    "an unknown command": (["predikt"], "predikt"),
    "a budget without a measurement": (["predict", *GEMM, "--seconds", "5"], "--seconds is the budget of --verify"),
    "a folder that is not a checkpoint": (["predict", *GEMM, "--checkpoint", "{}/hollow"], "hollow is no checkpoint"),
    "a checkpoint that is not there": (["predict", *GEMM, "--checkpoint", "{}/nowhere"], "nowhere"),
    "a checkpoint of another vocabulary": (["predict", *GEMM, "--checkpoint", "{}/vocabulary"], "vocabulary"),
    "a checkpoint of another kernel version": (["predict", *GEMM, "--checkpoint", "{}/values"], "version 99"),
    "a checkpoint without the kernel": (["predict", *GEMM, "--checkpoint", "{}/lacking"], "llvm.gemm is not in it"),
    "a checkpoint of another device kind": (["predict", *GEMM, "--checkpoint", "{}/opencl"], "llvm.gemm is not in it"),
    # further damages: tests/contracts/test_checkpoints.py
    "truncated weights": (["predict", *GEMM, "--checkpoint", "{}/cut"], "no safetensors file"),
    "weights of wrong shapes": (["predict", *GEMM, "--checkpoint", "{}/shapes"], "[3, 3]"),
    "weights of nan": (["predict", *GEMM, "--checkpoint", "{}/nan"], "not finite"),
    "a file as a checkpoint": (["predict", *GEMM, "--checkpoint", "{}/file"], "checkpoint"),
    **{f"{what} as a journal of {command[0]}": ([*command, "--journal", f"{{}}/{name}"], says)
       for what, name, says in (
           ("a truncated journal", "truncated.sqlite", "truncated"), ("a stub", "stub.sqlite", "not a journal"),
           ("a text file", "text.sqlite", "not a journal"), ("another schema", "foreign.sqlite", "not a journal"),
           ("a later version", "newer.sqlite", "version 99"), ("garbage", "garbled.sqlite", "journal"),
           ("a folder", "folder", "folder"))
       for command in (["predict", *GEMM, "--verify", "--checkpoint", "{}/good"], ["tune", *GEMM, "--trials", "3"],
                       ["export", "--out", "{}/new.parquet"])},
    "a journal that is not there": (
        ["export", "--out", "{}/new.parquet", "--journal", "{}/none.sqlite"], "none.sqlite"),
    "an output that is there": (["export", "--out", "{}/good.parquet", "--journal", "{}/good.sqlite"], "--force"),
    "an output in no folder": (["export", "--out", "{}/none/x.parquet", "--journal", "{}/good.sqlite"], "folder"),
    "an output in a file": (["train", "{}/good.parquet", "--out", "{}/good.parquet/ck"], "good.parquet is a file"),
    "an output that is a folder": (
        ["export", "--out", "{}/folder", "--force", "--journal", "{}/good.sqlite"], "folder"),
    "no output": (["export", "--journal", "{}/good.sqlite"], "--out"),
    "holding out an unknown set": (
        ["export", "--out", "{}/new.parquet", "--journal", "{}/good.sqlite", "--hold-out", "resnet1"], "resnet1"),
    "nothing to tune": (["tune"], "either"),
    "two kinds of problems": (["tune", *GEMM, "--problems", "resnet18"], "either"),
    "no trials": (["tune", *GEMM, "--trials", "0"], "--trials"),
    "negative trials": (["tune", *GEMM, "--trials", "-5"], "--trials"),
    "a negative time": (["tune", *GEMM, "--seconds", "-1"], "seconds"),
    "a negative seed": (["tune", *GEMM, "--seed", "-1"], "--seed"),
    "an unknown strategy": (["tune", *GEMM, "--strategy", "magic"], "magic"),
    "an unknown problem set": (["tune", "--problems", "resnet19"], "resnet19"),
    "an unknown batch": (["tune", "--problems", "resnet18:x"], "batch"),
    **{f"{what} of problems": (["tune", "--problems", f"{{}}/{name}"], says) for what, name, says in (
        ("an empty file", "empty.csv", "empty"), ("a header alone", "header.csv", "no problem"),
        ("a missing column", "column.csv", "needs k"), ("an unknown column", "unknown.csv", "colour"),
        ("a ragged row", "ragged.csv", "cells"), ("words for numbers", "words.csv", "c=many"),
        ("Latin-1", "latin.csv", "UTF-8"), ("UTF-16", "utf16.csv", "UTF-8"), ("a bad line", "lines.txt", "lines.txt:2"),
        ("an open quote", "quote.csv", "quote.csv"), ("a folder", "folder", "folder"))},
    **{f"{what} to {command}": ([command, *before, f"{{}}/{name}", *after], says)
       for what, name, says in (
           ("a truncated data set", "truncated.parquet", "truncated.parquet"),
           ("a text file", "text.parquet", "text.parquet"), ("an empty file", "empty.parquet", "empty.parquet"),
           ("another schema", "foreign.parquet", "not a data set"), ("a missing column", "column.parquet", "seconds"),
           ("a later version", "newer.parquet", "version 99"), ("an unknown status", "status.parquet", "fine"),
           ("an unknown device", "device.parquet", "device"), ("no file", "none.parquet", "none.parquet"))
       for command, before, after in (("train", [], ["--out", "{}/new"]),
                                      ("retrain", ["{}/good"], ["--out", "{}/new"]),
                                      ("evaluate", [], ["--methods", "default,random"]))},
    **{f"{what} to collect": (["collect", "--device", "llvm:0", *given], says) for what, given, says in (
        ("no time", ["--minutes", "0"], "minutes=0.0"), ("endless time", ["--minutes", "inf"], "minutes=inf"),
        ("no trials", ["--trials", "0"], "--trials"), ("an unknown device", ["--device", "nope"], "nope"),
        ("an absent GPU", ["--device", "cuda:h100"], "h100"), ("an unknown set", ["--problems", "nothing"], "nothing"),
        ("a file as a folder", ["--out", "{}/good.sqlite"], "is not a folder"),
        ("a missing folder", ["--out", "{}/none/collected"], "does not exist"),
        ("an unknown checkpoint", ["--checkpoint", "none"], "none"),
        ("a checkpoint for other devices", ["--checkpoint", "miopen"], "miopen"),
        ("a problem that no kernel solves", [*GEMM, "dtype=fp16"], "no kernel of llvm"),
        ("an unknown option", ["--minute", "3"], "--minute"),
        ("the state of nothing", ["--status"], "nothing is collected in collected yet"))},
    "an unknown method": (["evaluate", "{}/good.parquet", "--methods", "magic"], "magic"),
    "nothing held out": (["evaluate", "{}/good.parquet", "--methods", "default"], "holds out no problem"),
    "a device that the data lack": (
        ["evaluate", "{}/good.parquet", "--methods", "default", "--device", "abacus"], "abacus"),
    "a live evaluation of nothing": (["evaluate", "--live"], "--problems"),
    "no epochs": (["train", "{}/good.parquet", "--out", "{}/new", "--epochs", "0"], "--epochs"),
    "training over a checkpoint": (["train", "{}/good.parquet", "--out", "{}/good"], "--force"),
    "training over a folder of something else": (
        ["train", "{}/good.parquet", "--out", "{}", "--force", "--epochs", "1"], "not a checkpoint"),
}


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The files of a folder with their modification times."""
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in folder.rglob("*")}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_clear_line_and_changes_nothing(
        what: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    arguments, says = BAD[what]
    if arguments[:1] in (["train"], ["retrain"]):
        skip_without(*TRAINING)  # it is what they would ask for first
    before = tree(made), tree(tmp_path)
    line = refused(*(argument.replace("{}", str(made)) for argument in arguments))
    assert says in line
    assert len(line) < 600
    assert (tree(made), tree(tmp_path)) == before
