"""Check header: the text of check.h, which tells `check.c` of the kernels of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.kernels.devices.element_types import element_type

from .c_language import c_string, c_struct
from .check import Check, Json
from .chosen import Chosen

_HEADER = """\
/* What check.c has to know of the kernels: their arrays and references, and the ways in which they run. */

#include "{library}.h"

#define DEVICE {device}
#define CLOSE {close}
enum {{ MOST_ARRAYS = {most}, WAYS = {ways}, TIMED_WAY = 1 }};

{texts}static const struct kernel kernels[] = {{
{rows}}};
"""
_TEXT = """\
{reference}
static const struct array arrays_{name}[] = {{
{arrays}}};
static const struct rule rules_{name}[] = {{{rules}}};

{run}
"""
_ROW = """\
    {{"{name}", {remark}, arrays_{name}, {operands}, {count}, {rule_count}, rules_{name},
     {packed}, {workspace}, {reference}, run_{name}}},
"""


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A kernel that check.c runs."""

    chosen: Chosen
    check: Check
    run: str  # static double run_NAME(int way, void *const *arrays, void *packed, void *workspace), in C
    packed: str = "0"  # bytes that it asks for
    workspace: str = "0"

    def text(self) -> str:
        """Its arrays, rules and functions."""
        check = self.check
        return _TEXT.format(reference=check.reference.c if check.reference else "", name=self.chosen.name, run=self.run,
                            arrays=array_rows(check), rules=", ".join(_rules(check)) or "{0}")

    def row(self) -> str:
        """Its initial value of a `struct kernel`."""
        check = self.check
        return _ROW.format(name=self.chosen.name, remark=c_string(check.remark), count=len(check.arrays),
                           operands=len(check.tensors.inputs), rule_count=len(check.outputs), packed=self.packed,
                           workspace=self.workspace,
                           reference=f"reference_{self.chosen.name}" if check.reference else "NULL")


def check_header(library: str, kernels: Sequence[CheckedKernel], ways: int, device: str, close: str = "") -> str:
    """The text of check.h. `device` is the name of the device and `close` ends the check, in C."""
    return _HEADER.format(library=library, ways=ways, device=device, close=close,
                          most=max(len(kernel.check.arrays) for kernel in kernels),
                          texts="".join(kernel.text() for kernel in kernels),
                          rows="".join(kernel.row() for kernel in kernels))


def array_rows(check: Check) -> str:
    """The initial values of `struct array`, a line each."""
    names = list(check.arrays)
    return "".join(f'    {{"{name}", {tensor.dtype.upper()}, {tensor.size}, '
                   f"{_content(check.contents.get(name, {}), tensor.dtype, names)}}},\n"
                   for name, tensor in check.arrays.items())


def _content(content: Json, dtype: str, names: Sequence[str]) -> str:
    """The initial value of a `struct content`; `names` are those of the arrays by number.

    `content` is that of launch.json; an array without one is poisoned.
    """
    match dict(content):
        case {"kind": "drawn", "seed": seed, **bounds}:
            return c_struct(kind="DRAWN", number=seed, **bounds)
        case {"kind": "copy", "of": copied}:
            return c_struct(kind="COPY", number=names.index(copied))
        case {"kind": "file", "file": path}:
            return c_struct(kind="FILE_CONTENT", file=c_string(path))
        case {"kind": "index"}:
            return c_struct(kind="INDEX")
    return c_struct(kind="POISON", number=element_type(dtype).poison)


def _rules(check: Check) -> list[str]:
    """The initial values of `struct rule`."""
    names, rules = list(check.arrays), []
    for name, rule in check.outputs.items():
        count = -(-check.arrays[name].size // rule["step"]) if rule["step"] else 1
        files = {each: c_string(rule[each]) for each in ("expected", "sizes") if each in rule}
        rules.append(c_struct(output=names.index(name), step=rule["step"], count=count, allowed=rule["allowed"],
                              type=rule.get("type", "fp64").upper(), **files))
    return rules
