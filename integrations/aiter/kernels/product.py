"""The products that a row of aiter's CSV files describes, tuned or not: the file's name tells their kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from seqtune.errors import FormatError, ProblemError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.foreign_text import ForeignTable

from .table import PRODUCTS

OPERATION = "quantized_gemm"
_KINDS = (  # in file names; the first that is contained counts
    ("a4w4_blockscale", "a4w4_blockscale"), ("a8w8_blockscale_bpreshuffle", "a8w8_blockscale_bpreshuffle"),
    ("a8w8_blockscale", "a8w8_blockscale"), ("a8w8_bpreshuffle", "a8w8_bpreshuffle"),
    ("a8w8_tuned_batched", "a8w8_batched"), ("a8w8_tuned_gemm", "a8w8"), ("bf16_tuned_batched", "bf16_batched"),
    ("bf16_tuned_gemm", "bf16"))
_TYPES = {"int8": "int8", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "bfloat16": "bf16", "float16": "fp16",
          "float32": "fp32"}
_FLAGS = {"True": "yes", "False": "no", "1": "yes", "0": "no", "": "no"}


def kind_of(name: str) -> str:
    """The kind of product that the name of a file tells. Raises FormatError."""
    name = name.replace("untuned", "tuned")
    kind = next((kind for part, kind in _KINDS if part in name), None)
    if kind is None:
        raise FormatError("the file's name tells no kind of product (a8w8_blockscale_tuned_gemm.csv)")
    return kind


def problem_of(name: str, cells: Mapping[str, str]) -> Problem:
    """The product in a row of the file of this name, by the columns' names in small letters.

    Raises FormatError, ProblemError.
    """
    batch = whole(cells, "batch" if "batch" in cells else "b", "1")
    return _problem(kind_of(name), whole(cells, "m"), whole(cells, "n"), whole(cells, "k"), batch,
                    cells.get("q_dtype_w", ""), cells.get("bias", ""), cells.get("bpreshuffle", ""),
                    cells.get("outdtype", ""))


def whole(cells: Mapping[str, str], name: str, default: str = "") -> int:
    """The whole number in a cell. Raises FormatError."""
    text = cells.get(name, default)
    if not re.fullmatch(r"[0-9]{1,9}(?:\.0)?", text, re.ASCII):
        raise FormatError(f"{name} is not a whole number")
    return int(text.removesuffix(".0"))


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
    return Problem.make(OPERATION, m=m, n=n, k=k, batch=batch, bias=_flag("bias", bias),
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


UNTUNED = ForeignTable(OPERATION, lambda name: "untuned" in name, lambda name, cells: dict(problem_of(name, cells)))
