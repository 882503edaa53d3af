"""Run sections: the part of a library's document that declares a kernel's arrays and how it is run."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from ..launches.c_types import DECLARABLE
from .document_part import CName, DocumentPart, ExpressionText

LONGEST_SOURCE = 1_000_000  # characters of a kernel's text
MOST_ARGUMENTS = 100



def _declarable(dtype: str) -> str:
    if dtype not in DECLARABLE:
        raise ValueError(f"there is no element type {dtype!r:.40}; there are {', '.join(DECLARABLE)}")
    return dtype


DeclaredType: TypeAlias = Annotated[str, AfterValidator(_declarable)]
Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2000)]


class InputDocument(DocumentPart):
    """An array that the kernel reads: its shape (expressions separated by commas), element type and contents."""

    shape: ExpressionText
    dtype: DeclaredType = "fp32"
    # normal, uniform, "uniform 0..9", "uniform seed 3", zeros, ones, index, a number, or a .npy file
    values: int | float | Line = "normal"
    restore: bool = False  # whether kernels change it, so that it must be restored before each launch


class OutputDocument(DocumentPart):
    """An array that the kernel writes. `values` are its contents at the start; without them it is poisoned."""

    shape: ExpressionText
    dtype: DeclaredType = "fp32"
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None  # see `Tensor`
    check: Literal["elements", "sum"] = "elements"  # compared with the expected output: every element, or their sum
    values: int | float | Line | None = None  # as for an input, or "copy of x", where x is an input
    restore: bool = True  # whether `values` are restored before each launch, if the check's launch changed them


class SourceSection(DocumentPart):
    """A kernel in OpenCL C or CUDA C, its arguments and its launch."""

    source: Line | None = None  # a file
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_SOURCE)] | None = None
    entry: CName
    arguments: list[Line] = Field(default=[], max_length=MOST_ARGUMENTS)
    global_: list[ExpressionText] | None = Field(default=None, alias="global", min_length=1, max_length=3)
    groups: list[ExpressionText] | None = Field(default=None, min_length=1, max_length=3)
    local: list[ExpressionText] | None = Field(default=None, min_length=1, max_length=3)
    launches: ExpressionText = "1"  # number of launches of the entry; scalars may read `launch`
    defines: dict[CName, ExpressionText] = Field(default={}, max_length=MOST_ARGUMENTS)
    options: list[Line] = Field(default=[], max_length=MOST_ARGUMENTS)


class CommandSection(DocumentPart):
    """A program that runs a configuration once and prints its seconds as JSON."""

    run: list[Line] = Field(min_length=1, max_length=MOST_ARGUMENTS)
    build: list[Line] | None = Field(default=None, min_length=1, max_length=MOST_ARGUMENTS)
    repeats: Literal["ours", "theirs"] = "ours"
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0  # seconds
    memory: Annotated[int, Field(ge=1_000_000, le=1 << 50)] = 4_000_000_000  # bytes
