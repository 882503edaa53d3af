"""Check header: the text of check.h, which tells `check.c` of the kernels of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .check import Check, c_string
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
    reference: str  # the name of the check's reference in C
    run: str  # static double run_NAME(int way, void *const *arrays, void *packed, void *workspace), in C
    packed: str = "0"  # bytes that it asks for
    workspace: str = "0"

    def text(self) -> str:
        """Its arrays, rules and functions."""
        check = self.check
        return _TEXT.format(reference=check.reference.c if check.reference else "", name=self.chosen.name, run=self.run,
                            arrays=check.c_arrays(), rules=check.c_rules() or "{0}")

    def row(self) -> str:
        """Its initial value of a `struct kernel`."""
        check = self.check
        return _ROW.format(name=self.chosen.name, remark=c_string(check.remark), count=len(check.arrays),
                           operands=len(check.tensors.inputs), rule_count=len(check.outputs), packed=self.packed,
                           workspace=self.workspace, reference=self.reference if check.reference else "NULL")


def check_header(library: str, kernels: Sequence[CheckedKernel], ways: int, device: str, close: str = "") -> str:
    """The text of check.h. `device` is the name of the device and `close` ends the check, in C."""
    return _HEADER.format(library=library, ways=ways, device=device, close=close,
                          most=max(len(kernel.check.arrays) for kernel in kernels),
                          texts="".join(kernel.text() for kernel in kernels),
                          rows="".join(kernel.row() for kernel in kernels))
