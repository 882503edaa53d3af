"""aiter's tuned products: its CSV files, and a Parquet table of several of them.

A row is a product, the GPU (`gfx` and `cu_num`), the name of the kernel that won and its slices of k. The kind of the
product stands in the file's name (`a8w8_blockscale_tuned_gemm.csv`), or in a column `file`. Rows have the
status `chosen`: their times, each of one kernel, compare with nothing. The kernels that a file names become the space
of their kind of product, on the architectures for which it names them; so files are best imported together.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa

from seqtune.errors import FormatError, ProblemError, one_line
from seqtune.kernels.aiter.table import BACKEND, PRODUCTS, family_of, settings_of
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, reason
from seqtune.kernels.kernel import Setting
from seqtune.kernels.problem import Problem

from ..parquet_file import open_parquet, read_columns, values_of
from .declared_rows import DeclaredRow, imported, in_their_spaces
from .format import Format, ImportResult, Report

LARGEST_FILE = 50_000_000  # bytes; the largest one of aiter has 1.5 million
MOST_ROWS = 1_000_000
NEEDED = ("compute_units", "m", "n", "k", "split_k", "kernel_name")
_COLUMNS = {"cu_num": "compute_units", "splitk": "split_k", "kernelname": "kernel_name", "b": "batch"}
_KINDS = (  # in file names; the first that is contained counts
    ("a4w4_blockscale", "a4w4_blockscale"), ("a8w8_blockscale_bpreshuffle", "a8w8_blockscale_bpreshuffle"),
    ("a8w8_blockscale", "a8w8_blockscale"), ("a8w8_bpreshuffle", "a8w8_bpreshuffle"),
    ("a8w8_tuned_batched", "a8w8_batched"), ("a8w8_tuned_gemm", "a8w8"), ("bf16_tuned_batched", "bf16_batched"),
    ("bf16_tuned_gemm", "bf16"))
_TYPES = {"int8": "int8", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "bfloat16": "bf16", "float16": "fp16",
          "float32": "fp32"}
_ARCHITECTURES = {80: "gfx942", 304: "gfx942", 256: "gfx950"}  # of older files, which tell the compute units alone
_FLAGS = {"True": "yes", "False": "no", "1": "yes", "0": "no", "": "no"}

_Row = Mapping[str, str]
_Found = tuple[Device, Problem, str, Mapping[str, Setting]]  # with the kind of product, and settings


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    parts: list[list[_Found]] = []
    skipped: list[Counter[str]] = []
    for file in files:
        reasons: Counter[str] = Counter()
        rows = _table(file) if file.suffix == ".parquet" else _csv(file)
        parts.append([found for row in rows if (found := _found(row, reasons)) is not None])
        skipped.append(reasons)
    named: defaultdict[str, list[tuple[str, Mapping[str, Setting]]]] = defaultdict(list)
    for device, _, kind, settings in (found for part in parts for found in part):
        named[kind].append((device.architecture, settings))
    if not named:
        raise FormatError(f"{files[0]} holds no tuned product of aiter that is known here"
                          + next((f" ({reason[:160]})" for reason in skipped[0]), ""))
    kernels = {kind: family_of(kind, chosen) for kind, chosen in named.items()}
    choices: list[DeclaredRow] = []
    reports: list[Report] = []
    for file, part, reasons in zip(files, parts, skipped, strict=True):
        valid = in_their_spaces([DeclaredRow(device, problem, kernels[kind], settings)
                                 for device, problem, kind, settings in part], reasons)
        choices += valid
        reports.append({"path": str(file), "rows": len(valid), "skipped": dict(sorted(reasons.items()))})
    source = "aiter: " + ", ".join(file.name for file in files)
    return imported(choices, source, reports, kernels.values())


AITER = Format(("*tuned*gemm*.csv", "*.parquet"), read=_read)


def _csv(path: Path) -> Iterator[_Row]:
    """The rows of a CSV file. Raises FormatError."""
    try:
        text = read_bounded(path, LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not a text in UTF-8") from None
    lines = csv.reader(io.StringIO(text), strict=True)
    try:
        names = _names(path, next(lines, []))
        for values in lines:
            if len(values) == len(names):
                yield {"file": path.name, **dict(zip(names, map(str.strip, values), strict=True))}
            elif values:
                raise FormatError(f"{path}: line {lines.line_num} has {len(values)} values for {len(names)} columns")
    except csv.Error as error:
        raise FormatError(f"{path} is not a CSV file: {one_line(error, 100)}") from None


def _table(path: Path) -> Iterator[_Row]:
    """The rows of a Parquet table. Raises FormatError."""
    try:
        file = open_parquet(path, MOST_ROWS)
        names = _names(path, file.schema_arrow.names)
        table = read_columns(path, file, file.schema_arrow.names)
        columns = [values_of(table.column(number)) for number in range(table.num_columns)]
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    except pa.ArrowException as error:
        raise FormatError(f"{path} is no Parquet file: {one_line(error, 200)}") from None
    for values in zip(*columns, strict=True):
        yield {"file": path.name, **{name: "" if value is None else str(value)
                                     for name, value in zip(names, values, strict=True)}}


def _names(path: Path, written: Sequence[str]) -> list[str]:
    """The columns' names in our words. Raises FormatError if one is missing or occurs twice."""
    names = [_COLUMNS.get(name.strip().lower(), name.strip().lower()) for name in written]
    missing = next((name for name in NEEDED if names.count(name) != 1), None)
    if missing is not None:
        raise FormatError(f"{path} has {names.count(missing)} columns {missing!r}, and files of aiter's tuned products "
                          "have one")
    return names


def _found(row: _Row, skipped: Counter[str]) -> _Found | None:
    kind = next((kind for part, kind in _KINDS if part in row["file"]), None)
    try:
        if kind is None:
            raise FormatError("the file's name tells no kind of product (a8w8_blockscale_tuned_gemm.csv)")
        units = _whole(row, "compute_units")
        architecture = row.get("gfx") or _ARCHITECTURES.get(units, "unknown")
        device = _gpu(architecture, units)
        problem = _problem(kind, _whole(row, "m"), _whole(row, "n"), _whole(row, "k"), _whole(row, "batch", "1"),
                           row.get("q_dtype_w", ""), row.get("bias", ""), row.get("bpreshuffle", ""),
                           row.get("outdtype", ""))
        return device, problem, kind, settings_of(row["kernel_name"], _whole(row, "split_k"))
    except (FormatError, ProblemError) as error:
        skipped[str(error).partition(" (found")[0][:160]] += 1
        return None


def _whole(row: _Row, name: str, default: str = "") -> int:
    text = row.get(name, default)
    if not re.fullmatch(r"[0-9]{1,9}(?:\.0)?", text, re.ASCII):
        raise FormatError(f"{name} is not a whole number")
    return int(text.removesuffix(".0"))


@cache
def _gpu(architecture: str, units: int) -> Device:
    """The GPU of this architecture and size. Raises FormatError."""
    device = described(BACKEND, f"{architecture}_{units}"[:40])
    if device is None:
        raise FormatError(f"no facts are known here of a {architecture[:20]} with {units} compute units")
    return device


@cache
def _problem(kind: str, m: int, n: int, k: int, batch: int, dtype: str, bias: str, shuffled: str,
             out_dtype: str) -> Problem:
    """The problem of a row. Raises ProblemError."""
    product = PRODUCTS[kind]
    features: dict[str, str | int | None] = {**product.features}
    if "dtype" not in features:
        features["dtype"] = features["weight_dtype"] = _type(dtype or "int8")
    if product.whole_scale:
        features["scale_k"] = k
    if "shuffled" not in features:
        features["shuffled"] = _flag("bpreshuffle", shuffled)
    return Problem.make("quantized_gemm", m=m, n=n, k=k, batch=batch, bias=_flag("bias", bias),
                        out_dtype=_type(out_dtype) if out_dtype else None, **features)


def _type(word: str) -> str:
    name = word.removeprefix("torch.")
    if name not in _TYPES:
        raise ProblemError(f"the element type {word[:30]!r} is not known here")
    return _TYPES[name]


def _flag(name: str, word: str) -> str:
    if word not in _FLAGS:
        raise ProblemError(f"{name}={word[:20]!r} is neither True nor False")
    return _FLAGS[word]
