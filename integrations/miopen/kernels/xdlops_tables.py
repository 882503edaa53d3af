"""MIOpen's assembly gemm kernels for matrix units: a row of a fixed table of kernels, and the number of parts of K.

The table itself is part of MIOpen and not known here, but the text form of a configuration contains its row. So the
declarations are open: `with_rows` makes a search space from the rows that the data contains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from seqtune.errors import FormatError, KernelError
from seqtune.kernels.expression import Expression

from .solver import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    FORWARD,
    LONGEST_TEXT,
    NO_BIAS,
    ONE_GROUP,
    TWO_D,
    Condition,
    Solver,
    Tunable,
    WrittenField,
    dtypes,
    solver,
)

Spelled: TypeAlias = dict[str, int | str]

_WORDS = ("dir", "lyt", "pre")
_FIELDS = (*_WORDS, "nxb", "nxe", "mpb", "npb", "kpb", "wtm", "wtn", "wtk", "wsm", "wsn", "wrm", "wrn", "mh", "vs",
           "gks", "me", "pta", *(f"{part}{axis}" for part in ("ta", "ca", "tb", "cb") for axis in range(4)), "index")
_TEXT = (*_FIELDS[:-1], "row")
_ROW = tuple(name for name in _FIELDS if name not in ("gks", "index"))
_MOST_ROWS = 512
_MOST_SPLITS = 10
_INDEX = re.compile(r"(\d{1,4})(?:\[(\d{1,2})\])?")


@dataclass(frozen=True, slots=True)
class RowSolver(Solver):
    """A solver whose configuration is a row of a table, and `gks`: log2 of the parts that K is split into."""

    @property
    def is_open(self) -> bool:
        """Whether the table is unknown."""
        return "splits" not in dict(self.kernel.derived)

    def read(self, text: str) -> Spelled:
        """Read the values of a text form, by name, with the values of its row. Raises FormatError."""
        words = text.split(",") if len(text) <= LONGEST_TEXT else []
        index = _INDEX.fullmatch(words[-1]) if len(words) == len(_FIELDS) else None
        if index is None:
            raise FormatError(f"{self.name} has {len(_FIELDS)} values, the last an index, not {text!r:.80}")
        values: Spelled = {}
        for name, word in zip(_FIELDS[:-1], words, strict=False):
            fine = word.isascii() and (word.isalnum() if name in _WORDS else word.isdigit()) and len(word) < 10
            if not fine:
                raise FormatError(f"{self.name}: {name} cannot be {word!r:.40}")
            values[name] = word if name in _WORDS else int(word)
        if index[2] is not None and int(index[2]) != values["gks"]:
            raise FormatError(f"{self.name}: {words[-1]:.20} does not split K as gks={values['gks']} does")
        return {**values, "row": int(index[1])}

    def write(self, values: Sequence[int | str]) -> str:
        """The text form; its index also depends on whether K is split."""
        split = values[_FIELDS.index("gks")]
        return ",".join(map(str, values)) + (f"[{split}]" if split else "")

    def with_rows(self, labels: Iterable[Spelled]) -> RowSolver:
        """The solver with the table that the labels (from `read`) contain; the first label of a row defines it.

        Raises KernelError if there is no label.
        """
        table: dict[int, tuple[int | str, ...]] = {}
        splits: set[int] = set()
        for label in labels:
            row = int(label["row"])
            if table.setdefault(row, _row(label)) == _row(label) and label["gks"]:
                splits.add(row)
        if not table:
            raise KernelError(f"the table of {self.name} has no row")
        derived = tuple((name, Expression(_choice({row: values[index] for row, values in table.items()})))
                        for index, name in enumerate(_ROW))
        split = Expression(_choice({row: int(row in splits) for row in table}))
        index = replace(self.kernel.parameters[0], values=tuple(sorted(table)))
        kernel = replace(
            self.kernel, parameters=(index, *self.kernel.parameters[1:]),
            derived=(*derived, ("splits", split), *self.kernel.derived),
            default=(("row", min(table)), ("gks", int(min(table) in splits))))
        return replace(self, kernel=kernel)


def with_table(solver: Solver, tables: Mapping[str, Sequence[str]]) -> Solver:
    """The solver with its rows, as text, from the tables by solver, if any. Raises FormatError and KernelError."""
    if solver.name not in tables or not isinstance(solver, RowSolver):
        return solver
    return solver.with_rows(map(solver.read, tables[solver.name]))


def _row(label: Spelled) -> tuple[int | str, ...]:
    return tuple(label[name] for name in _ROW)


def _choice(values: Mapping[int, int | str]) -> str:
    """An expression for the value of each row: the most common value, except for the rows with another value.

    >>> _choice({1: 16, 2: 32, 5: 16})
    '(32 if row in (2,) else 16)'
    """
    common = Counter(values.values()).most_common()
    text = repr(common[0][0])
    for value, _ in common[1:]:
        rows = ",".join(str(row) for row in sorted(values) if values[row] == value)
        text = f"({value!r} if row in ({rows},) else {text})"
    return text


def _declare(name: str, direction: Condition, meaning: str, constraints: Iterable[Condition] = (),
             derived: Iterable[tuple[str, str]] = (), prior: Iterable[Condition] = ()) -> RowSolver:
    declared = solver(
        name, "row gks",
        (Tunable("row", range(_MOST_ROWS), "place in MIOpen's table of kernels"),
         Tunable("gks", range(_MOST_SPLITS + 1), "log2 of the parts that K is split into")),
        (("pre == dtype", "the row's kernel computes in another type"),
         ("(gks > 0) == (splits == 1)", "K is split by the rows made for it"), *constraints),
        (0, 0), meaning=meaning,
        solves=(direction, TWO_D, dtypes("fp32", "fp16", "bf16"), ONE_GROUP, NO_BIAS,
                ("matrix_units == 1", "it needs matrix units")),
        derived=derived, prior=prior)
    fields = tuple(name if name in ("gks", "row") else WrittenField(name, Expression(name)) for name in _TEXT)
    return RowSolver(declared.kernel, fields)


FORWARD_ROWS = _declare(
    "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC", FORWARD, "implicit gemm on matrix units, assembly",
    constraints=(
        ("nxe != 0 or unit", "the row's kernel is for 1x1 filters without stride and padding only"),
        ("me == 0 or ((kpb // (s * c_group)) % r < 256 and (kpb // c_group) % s < 256 and kpb % c_group < 256)",
         "steps through the filter have 8 bits"),
        ("unaligned or ((c >> gks) != 0 and ((c >> gks) // groups) % kpb == 0)", "K has no tail"),
        ("unaligned or dtype != 'fp16' or (k_group % 2 == 0 if gks != 0"
         " else k_group % gcd(npb, 8 if vs == 0 else vs) == 0)", "output channels are written by vectors"),
        ("unaligned or dtype != 'bf16' or gks != 0 or k_group % gcd(npb, 8 if vs == 0 else vs) == 0",
         "output channels are written by vectors"),
    ),
    derived=(
        ("unit", "1 if r == 1 and s == 1 and (stride_h == 1 or x_h == 1) and (stride_w == 1 or x_w == 1)"
                 " and pad_h == 0 and pad_w == 0 else 0"),
        ("c_group", "c // groups"),
        ("k_group", "k // groups"),
        ("unaligned", "1 if ta1 == 1 and tb1 == 1 else 0"),
    ),
    prior=(("not unit or nxe == 0 or unaligned", "the tuner keeps general kernels from plain 1x1 filters"),),
)
DATA_ROWS = _declare("ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC", BACKWARD_DATA,
                     "data gradient by implicit gemm on matrix units, assembly")
WEIGHTS_ROWS = _declare("ConvAsmImplicitGemmGTCDynamicWrwXdlopsNHWC", BACKWARD_WEIGHTS,
                        "weight gradient by implicit gemm on matrix units, assembly")
