"""Targets: the readers of files and texts from outside, each with small sound files that the fuzzer spoils."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import is_installed
from seqtune.kernels.devices.device import Device
from seqtune.kernels.libraries.table import use
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support.records import space_records, write_journal
from tests.support.winner_files import AITER, GEMLITE, scale_library, write_helion

from .mutations import (
    Structure,
    json_structure,
    parquet_structure,
    safetensors_structure,
    sqlite_structure,
)

Files = dict[str, bytes]

_PROBLEMS = b"""# a problem on each line
gemm m=64 n=128 k=256 trans_a=no
conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad_h=1 pad_w=1
{"type": "gemm", "m": 8, "n": 8, "k": 8}
"""
_CSV = b"type,m,n,k,trans_b,count\ngemm,64,128,256,no,3\ngemm,1,1000,512,,1\n"
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "reduction"
_T1 = {
    "General": {"BenchmarkName": "toy", "OutputFormat": "JSON"},
    "ConfigurationSpace": {"TuningParameters": [
        {"Name": "TILE", "Type": "int", "Values": [1, 2, 4], "Default": 1},
        {"Name": "GROUP", "Type": "int", "Values": [32, 64], "Default": 32}],
        "Conditions": [{"Expression": "TILE * GROUP <= 128", "Parameters": ["TILE", "GROUP"]}]},
    "KernelSpecification": {
        "Language": "OpenCL", "BenchmarkName": "toy", "KernelName": "work", "KernelFile": "work.cl",
        "GlobalSizeType": "OpenCL", "LocalSize": {"X": "GROUP", "Y": "1", "Z": "1"},
        "GlobalSize": {"X": "1024", "Y": "1", "Z": "1"}, "ProblemSize": [1024],
        "Arguments": [
            {"Name": "x", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Random",
             "Size": 1024},
            {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "FillType": "Constant",
             "FillValue": 0, "Size": 1024, "Output": 1}]}}
_CACHE = {
    "device_name": "A GPU", "kernel_name": "toy", "problem_size": [640, 480], "tune_params_keys": ["tile", "order"],
    "tune_params": {"tile": [1, 2, 4], "order": ["mn", "nm"]}, "objective": "time",
    "cache": {f"{tile},mn": {"tile": tile, "order": "mn", "time": 0.5 * tile, "times": [0.5, 0.6], "compile_time": 5.0}
              for tile in (1, 2, 4)}}
_AUTOTUNE = {"key": [5, "torch.float16"], "configs_timings": [
    [{"kwargs": {"BLOCK": block}, "num_warps": 4, "num_stages": 3}, [0.5, 0.5, 0.6]] for block in (32, 64)]}
_FIND = (b"64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F=ConvAsm1x1U:0.5,0,miopenConvolutionFwdAlgoDirect;"
         b"GemmFwd1x1_0_1:0.25,4096,miopenConvolutionFwdAlgoGEMM\n") * 3
_PERF = b"2x64x28x28x1x1x1x1x256x32x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm1x1U:1,16,4,16,1,2,1,2\n" * 3
_TABLE = {"triton_version": "3.4.0", **{str(tokens): {
    "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 3}
    for tokens in (1, 16, 256)}}
_MODEL = {"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8,
          "num_experts_per_tok": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}
_EXPRESSION = (b"(m % (tile * 8) == 0 and tile <= min(n, 64)) or {1: 2, 'a': 3}[1] if k > 4 "
               b"else ceil_div(m, tile) ** 2 < 99")
_VALUES = {"m": 64, "n": 128, "k": 256, "tile": 4}
_DEVICE = Device("llvm:0", "llvm", "zen4", "avx512", threads=2, toolchain="t1", model="A CPU")
_PROBLEM = Problem.make("gemm", m=64, n=128, k=256)


@cache
def _sound_journal() -> bytes:
    space = SearchSpace(kernel("llvm.gemm"), _PROBLEM, _DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        return write_journal(path, space_records(space, [1e-3, 1.1e-3, 1.2e-3]), _DEVICE).read_bytes()


@cache
def _sound_dataset() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "journal.sqlite").write_bytes(_sound_journal())
        with Journal(Path(folder) / "journal.sqlite") as journal:
            Dataset.from_journal(journal).write(Path(folder) / "data.parquet")
        return (Path(folder) / "data.parquet").read_bytes()


@cache
def _recorded() -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    space = {"kernel": "toy", "tune_params": {"tile": [1, 2, 4]}, "restrictions": ["tile < 4"], "problem_size": [640],
             "devices": {"fast": {"device_name": "Fast", "vendor": "ACME"}}}
    table = pa.table({"device": ["fast"] * 3, "status": ["ok"] * 3, "time_ms": [1.0, 2.0, 3.0], "tile": [1, 2, 4],
                      "measured": [True] * 3, "n_runs": [3] * 3, "compile_ms": [1.0] * 3})
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"space": json.dumps(space)}), sink)
    return sink.getvalue()


@cache
def _checkpoint(name: str) -> Files:
    from seqtune.predictor.checkpoint_folder import find

    return {f"checkpoint/{path.name}": path.read_bytes() for path in sorted(find(name).iterdir()) if path.is_file()}


def _text(content: object) -> bytes:
    return json.dumps(content).encode()


def _read(function: str, file: str, folder: Path) -> None:
    """Call a reader, given as `module:function`, with the path; read what it yields."""
    reader: Any = resolve(function)
    answer = reader(folder / file)
    if hasattr(answer, "__next__"):
        for _ in answer:
            pass


def _import(form: str, file: str, folder: Path) -> None:
    from seqtune.data.formats.format import Format
    from seqtune.data.formats.table import format_of

    if form == "helion-csv":
        use(scale_library())
    chosen = format_of(form, "read")
    assert isinstance(chosen, Format)
    assert chosen.read is not None
    chosen.read([folder / file], ["triton:h200"] if form in ("triton", "gemlite") else [])


def _read_journal(folder: Path) -> None:
    for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    with Journal(folder / "journal.sqlite") as journal:
        Dataset.from_journal(journal)
        journal.problems()


def _read_problem(folder: Path) -> None:
    from seqtune.kernels.problem_sets.parse import parse_problem

    parse_problem((folder / "problem.txt").read_bytes().decode("utf-8", "surrogateescape"))


def _read_expression(folder: Path) -> None:
    import numpy as np

    from seqtune.kernels.expression import Expression

    expression = Expression((folder / "expression.txt").read_bytes().decode("utf-8", "surrogateescape"))
    known = {name: value for name, value in _VALUES.items() if name in expression.names}
    expression(known)
    expression({name: np.array([value, 1, 0]) for name, value in known.items()})


def _read_library(file: str, folder: Path) -> None:
    from seqtune.kernels.libraries.reading import read_library

    read_library(folder / file)


def _load_checkpoint(folder: Path) -> None:
    from seqtune.predictor.checkpoint import Checkpoint

    Checkpoint.load(folder / "checkpoint")


def _read_choices(folder: Path) -> None:
    from seqtune.networks.selection.choices import SavedChoices

    SavedChoices.read(folder / "choices.json").on(_DEVICE)


def _read_dispatcher(folder: Path) -> None:
    from seqtune.predictor.dispatch.c_file import c_file
    from seqtune.predictor.dispatch.dispatcher import Dispatcher
    from seqtune.predictor.dispatch.python_file import python_file

    dispatcher = Dispatcher.load(folder / "dispatch.json")
    for m in (1, 64, 1 << 20):
        dispatcher.choose(Problem.make("gemm", m=m, n=64, k=64))
    compile(python_file(dispatcher), "dispatch.py", "exec")
    c_file(dispatcher, "some")


@dataclass(frozen=True)
class Target:
    """One reader: its sound files, the one that is spoilt, and the call that reads the folder of them."""

    name: str
    file: str
    files: Callable[[], Files]
    read: Callable[[Path], None]
    structure: Structure | None = None
    weight: float = 1.0  # share of the inputs, relative to the others; slow readers get fewer


def _single(file: str, content: bytes, more: Mapping[str, bytes] | None = None) -> Callable[[], Files]:
    return lambda: {file: content, **(more or {})}


def _json_format(form: str, file: str, content: object) -> Target:
    return Target(form, file, _single(file, _text(content)), partial(_import, form, file), json_structure)


def _checkpoint_part(name: str, part: str, structure: Structure) -> Target:
    return Target(f"checkpoint {name} {part}", f"checkpoint/{part}", partial(_checkpoint, name), _load_checkpoint,
                  structure, 0.1)


def _choices() -> Files:
    family = kernel("llvm.gemm")
    default = SearchSpace(family, _PROBLEM, _DEVICE).default
    return {"choices.json": _text({"seqtune": 1, "device": _DEVICE.key, "machine": _DEVICE.fingerprint, "layers": [
        {"problem": _PROBLEM.to_json(), "kernel": "llvm.gemm", "version": family.version,
         "configuration": dict(default.settings)}]})}


@cache
def _dispatcher() -> Files:
    from seqtune.kernels.operations.table import operation
    from seqtune.predictor.dispatch.domain import Domain
    from tests.support.guarded_members import random_dispatcher

    domain = Domain.parse(operation("gemm"), ["m=1..512", "n=64,128", "k=1..512", "trans_b=no,yes", "m % 2 == 0"])
    return {"dispatch.json": _text(random_dispatcher(domain, [kernel("llvm.gemm")], _DEVICE, members=3).to_json())}


@cache
def _helion() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        write_helion(Path(folder) / "scale.csv")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@cache
def _onnx() -> bytes:
    from tests.support.onnx_files import write_network

    with tempfile.TemporaryDirectory() as folder:
        return write_network(Path(folder) / "network.onnx").read_bytes()


def _example(file: str) -> Files:
    return {path.name: path.read_bytes() for path in _EXAMPLE.iterdir()} | (
        {file: _text(_T1), "work.cl": b"__kernel void work(__global float *x) {}"} if file == "toy.json" else {})


_ALL = (
    Target("problem", "problem.txt", _single("problem.txt", b"conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad_h=1"),
           _read_problem, weight=3.0),
    Target("problem as JSON", "problem.txt", _single("problem.txt", _text({"type": "gemm", "m": 8, "n": 8, "k": 8})),
           _read_problem, json_structure, 3.0),
    Target("problems", "problems.txt", _single("problems.txt", _PROBLEMS),
           partial(_read, "seqtune.kernels.problem_sets.parse:read_problems", "problems.txt"), weight=2.0),
    Target("problems as CSV", "problems.csv", _single("problems.csv", _CSV),
           partial(_read, "seqtune.kernels.problem_sets.parse:read_problems", "problems.csv"), weight=2.0),
    Target("expression", "expression.txt", _single("expression.txt", _EXPRESSION), _read_expression, weight=3.0),
    Target("library", "library.toml", partial(_example, "library.toml"),
           partial(_read_library, "library.toml"), weight=2.0),
    Target("T1", "toy.json", partial(_example, "toy.json"),
           partial(_read_library, "toy.json"), json_structure, 2.0),
    Target("journal", "journal.sqlite", lambda: {"journal.sqlite": _sound_journal()}, _read_journal, sqlite_structure),
    Target("data set", "data.parquet", lambda: {"data.parquet": _sound_dataset()},
           partial(_read, "seqtune.data.dataset:Dataset.read", "data.parquet"), parquet_structure),
    Target("recorded", "toy.parquet", lambda: {"toy.parquet": _recorded()}, partial(_import, "recorded", "toy.parquet"),
           parquet_structure),
    _json_format("kernel-tuner", "cache.json", _CACHE),
    _json_format("triton", "k.autotune.json", _AUTOTUNE),
    _json_format("gemlite", "h200.json", GEMLITE),
    Target("aiter", "a8w8_tuned_gemm.csv", _single("a8w8_tuned_gemm.csv", AITER.encode()),
           partial(_import, "aiter", "a8w8_tuned_gemm.csv")),
    Target("packed cache", "cache.json.gz", _single("cache.json.gz", gzip.compress(_text(_CACHE), mtime=0)),
           partial(_import, "kernel-tuner", "cache.json.gz")),
    Target("find-db", "gfx906_60.HIP.fdb.txt", _single("gfx906_60.HIP.fdb.txt", _FIND),
           partial(_import, "miopen", "gfx906_60.HIP.fdb.txt")),
    Target("packed find-db", "gfx906_60.HIP.fdb.txt.bz2", _single("gfx906_60.HIP.fdb.txt.bz2", bz2.compress(_FIND)),
           partial(_import, "miopen", "gfx906_60.HIP.fdb.txt.bz2")),
    Target("perf-db as text", "gfx906_60.db.txt", _single("gfx906_60.db.txt", _PERF),
           partial(_import, "miopen", "gfx906_60.db.txt")),
    Target("helion-csv", "scale.csv", _helion, partial(_import, "helion-csv", "scale.csv")),
    Target("server's table", "t.json", _single("t.json", _text(_TABLE)),
           partial(_read, "seqtune.integrations.serving.formats.table_file:read_table", "t.json"), json_structure),
    Target("server's model", "config.json", _single("config.json", _text(_MODEL)),
           partial(_read, "seqtune.integrations.serving.formats.served_model:read_model", "config.json"),
           json_structure),
    Target("saved choices", "choices.json", _choices, _read_choices, json_structure),
    Target("dispatcher", "dispatch.json", _dispatcher, _read_dispatcher, json_structure),
    *(_checkpoint_part(name, part, structure) for name in ("clblast", "miopen") for part, structure in (
        ("seqtune.json", json_structure), ("config.json", json_structure),
        ("model.safetensors", safetensors_structure))),
    *([Target("ONNX", "network.onnx", lambda: {"network.onnx": _onnx()},
              partial(_read, "seqtune.kernels.problem_sets.onnx_file:read_model", "network.onnx"))]
      if is_installed("onnx") else []),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _ALL}
