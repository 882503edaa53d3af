"""CPU text: the C99 functions of llvm kernels, their header, and the program that checks them.

A kernel has three functions: one for plain arrays, one that takes packed constants and a workspace and allocates
nothing, and one that runs a share of a phase for callers with threads of their own. A phase has as many shares as the
device has threads, since these determine the pieces of the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors

from .c_language import C_TYPES, array_line
from .check import Check
from .check_header import CheckedKernel
from .chosen import Chosen

_PRELUDE = """\
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
{headers}#ifdef _OPENMP
#include <omp.h>
#endif
#include "{library}.h"

typedef void entry(const void *, const void *, const void *, void *, void *, const int64_t *, int64_t, int64_t);

struct phase {{ entry *run; int64_t tasks, runs; }};

enum {{ ALL = -1 }};    /* in place of a phase */

{supported}
/* A share of a phase: its part of every run of the tasks. */
static void run_share(const struct phase *phase, const void *const operands[3], void *y, void *workspace,
                      const int64_t *arguments, int64_t index, int64_t shares)
{{
    const int64_t tasks = phase->tasks / phase->runs, begin = tasks * index / shares;
    const int64_t end = tasks * (index + 1) / shares;
    for (int64_t first = 0; first < phase->tasks; first += tasks)
        phase->run(operands[0], operands[1], operands[2], y, workspace, arguments, first + begin, first + end);
}}

/* All phases, on up to `shares` of OpenMP's threads where the compiler has it, else on this one. */
static void run_phases(const struct phase *phases, int count, const void *const operands[3], void *y, void *workspace,
                       const int64_t *arguments, int shares)
{{
#ifdef _OPENMP
    const int threads = omp_get_max_threads() < shares ? omp_get_max_threads() : shares;
    if (threads > 1) {{
#pragma omp parallel num_threads(threads)
        for (int phase = 0; phase < count; phase++) {{
            for (int index = omp_get_thread_num(); index < shares; index += omp_get_num_threads())
                run_share(phases + phase, operands, y, workspace, arguments, index, shares);
#pragma omp barrier
        }}
        return;
    }}
#endif
    (void)shares;
    for (int phase = 0; phase < count; phase++)
        run_share(phases + phase, operands, y, workspace, arguments, 0, 1);
}}

static void *aligned(size_t bytes)    /* memory that begins at a cache line */
{{
    void *memory = NULL;
    return posix_memalign(&memory, 64, bytes ? bytes : 64) ? NULL : memory;
}}

const char *{library}_error(int code)
{{
    static const char *const texts[] = {{"it ran", "this CPU lacks {needs}, for which the kernel was made",
                                        "the memory for packed constants or the workspace cannot be allocated",
                                        "there is no such phase or share"}};
    return code >= 0 && code < 4 ? texts[code] : "unknown code";
}}
"""

_KERNEL = """\

/* {problem} */

extern entry {entries};
{pack}
/* A share of one phase, or all shares of all phases. */
static int {name}_part({packed_operands}, {y} *y, void *workspace, int phase, int index)
{{
    static const struct phase phases[] = {{{phases}}};
    const void *const operands[] = {{{addresses}}};
    const int64_t arguments[] = {{{arguments}}};
    if (!supported())
        return 1;
    if (phase == ALL)
        run_phases(phases, {name_upper}_PHASES, operands, y, workspace, arguments, {name_upper}_SHARES);
    else
        run_share(phases + phase, operands, y, workspace, arguments, index, {name_upper}_SHARES);
    return 0;
}}

int {name}_share({packed_operands}, {y} *y, void *workspace, int phase, int index)
{{
    if (phase < 0 || phase >= {name_upper}_PHASES || index < 0 || index >= {name_upper}_SHARES)
        return 3;
    return {name}_part({packed_names}, y, workspace, phase, index);
}}

int {name}_run({packed_operands}, {y} *y, void *workspace)
{{
    return {name}_part({packed_names}, y, workspace, ALL, 0);
}}

int {name}({plain_operands}, {y} *y)
{{
    void *workspace = aligned({name_upper}_WORKSPACE_BYTES), *packed = aligned({name_upper}_PACKED_BYTES);
    int code = workspace && packed ? 0 : 2;
    if (!code) {{
{packs}        code = {name}_run({packed_names}, y, workspace);
    }}
    free(packed);
    free(workspace);
    return code;
}}
"""

_HEADER = """\
/* {about}

   Arrays are contiguous. The functions return 0, or a code that {library}_error explains; they keep nothing, so that
   several threads may call them at once, with a workspace for each call. Packed constants and workspaces are memory of
   the caller, which should begin at a multiple of 64 bytes. */

#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

const char *{library}_error(int code);
{kernels}
#ifdef __cplusplus
}}
#endif

#endif
"""

_DECLARED = """
/* {problem}
   {configuration}
{arrays} */
enum {{ {name_upper}_SHARES = {shares}, {name_upper}_PHASES = {phases} }};
#define {name_upper}_WORKSPACE_BYTES {workspace}
#define {name_upper}_PACKED_BYTES {packed_bytes}

/* All of it: allocates what it needs and frees it. */
int {name}({plain_operands}, {y} *y);
{pack}/* Without an allocation, on up to {name_upper}_SHARES threads with OpenMP. */
int {name}_run({packed_operands}, {y} *y, void *workspace);
/* A share of a phase, for threads of the caller's own: a phase begins when all shares of the one before have ended. */
int {name}_share({packed_operands}, {y} *y, void *workspace, int phase, int index);
"""

_CHECK = """\
static double run_{name}(int way, void *const *arrays, void *packed, void *workspace)
{{
    const double begin = now();
    int code = 0;
    if (way == 0) {{
        {pack_array}
        code = {name}({plain_arrays});
    }} else if (way == 1) {{
        code = {name}_run({packed_arrays}, workspace);
    }} else {{
        for (int share = 0; share < {name_upper}_PHASES * {name_upper}_SHARES && !code; share++)
            code = {name}_share({packed_arrays}, workspace, share / {name_upper}_SHARES, share % {name_upper}_SHARES);
    }}
    if (code)
        stop("{name}", {library}_error(code));
    return now() - begin;
}}
"""


@dataclass(frozen=True)
class CpuKernel:
    """One kernel as the texts need it."""

    chosen: Chosen
    tensors: Tensors  # the operands in the order of the operation, and the output y
    pack: str  # the text of static void NAME_order(const TYPE *, void *); empty without a constant
    packed_bytes: int
    launch: Launch
    entries: Mapping[str, str]  # entry of a phase -> its name in the object
    check: Check  # whose reference is reference_NAME

    @property
    def constant(self) -> str | None:
        """The operand that is packed."""
        return operation(self.chosen.problem.type).constant

    @property
    def given(self) -> list[str]:
        """The names of the operands that the kernel is given: `packed` for its constant."""
        return ["packed" if name == self.constant else name for name in self.tensors.inputs]

    @cached_property
    def words(self) -> dict[str, object]:
        """The words of the templates."""
        name, plain = self.chosen.name, [_parameter(name, tensor) for name, tensor in self.tensors.inputs.items()]
        packed = ["const void *packed" if name == self.constant else text
                  for name, text in zip(self.tensors.inputs, plain, strict=True)]
        return {"name": name, "name_upper": name.upper(), "y": C_TYPES[self.tensors.outputs["y"].dtype],
                "plain_operands": ", ".join(plain), "packed_operands": ", ".join(packed),
                "packed_names": ", ".join(self.given), "problem": self.chosen.problem.key,
                "packed_bytes": self.packed_bytes}

    def source(self) -> str:
        """The functions."""
        names, further = self.given[:MOST_OPERANDS], self.given[MOST_OPERANDS:]  # the latter are the last arguments
        numbers = self.launch.arguments[:len(self.launch.arguments) - len(further)]
        pack = packs = ""
        if self.constant is not None:
            name = self.chosen.name
            pack = f"\n{self.pack}\n{self._pack_head()}\n{{\n    {name}_order({self.constant}, packed);\n}}\n"
            packs = f"        {name}_pack({self.constant}, packed);\n"
        return _KERNEL.format(
            **self.words, entries=", ".join(dict.fromkeys(self.entries.values())), pack=pack, packs=packs,
            phases=", ".join(f"{{{self.entries[phase.entry]}, {phase.tasks}, {phase.runs}}}"
                             for phase in self.launch.phases),
            addresses=", ".join([*names, *["NULL"] * (MOST_OPERANDS - len(names))]),
            arguments=", ".join([*map(_number, numbers), *(f"(int64_t)(intptr_t){name}" for name in further)]) or "0")

    def declarations(self) -> str:
        """The part of the header."""
        pack = "" if self.constant is None else (
            f"/* The order of {self.constant} in which the kernel reads it. */\n{self._pack_head()};\n")
        return _DECLARED.format(
            **self.words, configuration=self.chosen.brief(),
            phases=len(self.launch.phases), shares=self.chosen.device.threads, workspace=4 * self.launch.workspace,
            pack=pack, arrays="\n".join(map(array_line, self.check.arrays, self.check.arrays.values())))

    def _pack_head(self) -> str:
        """The beginning of the function that packs the constant."""
        assert self.constant is not None
        operand = _parameter(self.constant, self.tensors.inputs[self.constant])
        return f"void {self.chosen.name}_pack({operand}, void *packed)"

    def checked(self, library: str) -> CheckedKernel:
        """The kernel as check.c runs it: by the plain function, by the one that allocates nothing, and in shares."""
        arrays = [f"arrays[{number}]" for number in range(len(self.check.arrays))]
        packed = ["packed" if name == self.constant else array
                  for name, array in zip(self.check.arrays, arrays, strict=True)]
        pack = "(void)packed;" if self.constant is None else (
            f"{self.chosen.name}_pack({arrays[packed.index('packed')]}, packed);")
        name = self.chosen.name
        run = _CHECK.format(**self.words, library=library, pack_array=pack, plain_arrays=", ".join(arrays),
                            packed_arrays=", ".join(packed))
        return CheckedKernel(self.chosen, self.check, f"reference_{name}", run, f"{name.upper()}_PACKED_BYTES",
                             f"{name.upper()}_WORKSPACE_BYTES")


def library_source(library: str, kernels: Sequence[CpuKernel], needs: str, headers: str, supported: str) -> str:
    """The C file of a library. `supported` is the function of this name, `headers` the lines that it needs."""
    prelude = _PRELUDE.format(library=library, needs=needs, headers=headers, supported=supported)
    return prelude + "".join(kernel.source() for kernel in kernels)


def library_header(library: str, kernels: Sequence[CpuKernel], about: str) -> str:
    """The header of a library."""
    return _HEADER.format(library=library, about=about, guard=f"{library.upper()}_H",
                          kernels="".join(kernel.declarations() for kernel in kernels))


def _number(value: int) -> str:
    """An integer of 64 bits in C."""
    return f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN"


def _parameter(name: str, tensor: Tensor) -> str:
    """A parameter that a function reads."""
    return f"const {C_TYPES[tensor.dtype]} *{name}"
