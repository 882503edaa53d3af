"""CPU text: the C99 functions of llvm kernels, their header, and the program that checks them.

A kernel has three functions: one for plain arrays, one that takes packed constants and a workspace and allocates
nothing, and one that runs a share of a phase for callers with threads of their own. A phase has as many shares as the
device has threads, since these determine the pieces of the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS, Shape
from seqtune.kernels.problem import Problem

from .inputs import c_inputs
from .packing import C_TYPES
from .reference import ReferenceText, c_values

SAMPLED_FROM = 2e9  # multiply-adds of a reference, from which on a sample of the outputs is compared

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

static void *lines(size_t bytes)    /* memory that begins at a cache line */
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
static const int64_t {name}_arguments[] = {{{arguments}}};
static const struct phase {name}_phases[] = {{{phases}}};

{pack}
int {name}_share({packed_operands}, {y} *y, void *workspace, int phase, int index)
{{
    const void *const operands[] = {{{addresses}}};
{further}    if (!supported())
        return 1;
    if (phase < 0 || phase >= {name_upper}_PHASES || index < 0 || index >= {name_upper}_SHARES)
        return 3;
    run_share({name}_phases + phase, operands, y, workspace, {given}, index, {name_upper}_SHARES);
    return 0;
}}

int {name}_run({packed_operands}, {y} *y, void *workspace)
{{
    const void *const operands[] = {{{addresses}}};
{further}    if (!supported())
        return 1;
    run_phases({name}_phases, {name_upper}_PHASES, operands, y, workspace, {given}, {name_upper}_SHARES);
    return 0;
}}

int {name}({plain_operands}, {y} *y)
{{
    void *workspace = lines({name_upper}_WORKSPACE_BYTES);
    int code = workspace ? 0 : 2;
{plain}    free(workspace);
    return code;
}}
"""

_PLAIN = """\
    if (!code)
        code = {name}_run({names}, y, workspace);
"""

_PLAIN_PACKED = """\
    void *packed = lines({name_upper}_PACKED_BYTES);
    if (!packed)
        code = 2;
    if (!code) {{
        {name}_pack({constant}, packed);
        code = {name}_run({names}, y, workspace);
    }}
    free(packed);
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
{packing}
/* All of it: allocates what it needs and frees it. */
int {name}({plain_operands}, {y} *y);
{pack}/* Without an allocation, on up to {name_upper}_SHARES threads with OpenMP. */
int {name}_run({packed_operands}, {y} *y, void *workspace);
/* A share of a phase, for threads of the caller's own: a phase begins when all shares of the one before have ended. */
int {name}_share({packed_operands}, {y} *y, void *workspace, int phase, int index);
"""

_CHECK_HEAD = """\
/* Runs every kernel on inputs from a seed, compares its output with a reference, and prints the median of 20 times.

   Exit status: 0 all are right, 1 one is wrong, 2 this machine cannot run them. */

#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "{library}.h"

enum {{ RUNS = 20 }};

{inputs}
static double now(void)
{{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}}

static int longer(const void *first, const void *second)
{{
    const double difference = *(const double *)first - *(const double *)second;
    return (difference > 0) - (difference < 0);
}}

static void *memory(size_t bytes)
{{
    void *content = NULL;
    if (posix_memalign(&content, 64, bytes ? bytes : 64)) {{
        fprintf(stderr, "an array of %zu bytes does not fit into memory\\n", bytes);
        exit(2);
    }}
    return content;
}}

static void stop(int code)
{{
    if (code) {{
        fprintf(stderr, "%s\\n", {library}_error(code));
        exit(2);
    }}
}}
"""

_CHECK = """\

{reference}
static int check_{name}(void)
{{
{arrays}    {y} *y = memory({count} * sizeof *y);
    void *workspace = memory({name_upper}_WORKSPACE_BYTES);
    double largest = 0, difference = 0, times[RUNS];
    double *wanted = memory({compared} * sizeof *wanted);
{packed}    for (int64_t turn = 0; turn < {compared}; turn++) {{
        wanted[turn] = expected_{name}({names}, {place});
        largest = fmax(largest, fabs(wanted[turn]));
    }}
    for (int way = 0; way < 3; way++) {{     /* the three functions */
        memset(y, 0xff, {count} * sizeof *y);
        if (way < 2)
            stop(way ? {name}_run({packed_names}, y, workspace) : {name}({names}, y));
        else
            for (int share = 0; share < {name_upper}_PHASES * {name_upper}_SHARES; share++)
                stop({name}_share({packed_names}, y, workspace, share / {name_upper}_SHARES,
                                  share % {name_upper}_SHARES));
        for (int64_t turn = 0; turn < {compared}; turn++) {{
            const double error = fabs({value}(y[{place}]) - wanted[turn]);
            if (!(error <= difference))
                difference = isnan(error) ? HUGE_VAL : error;
        }}
    }}
    for (int run = 0; run < RUNS; run++) {{
        const double begin = now();
        stop({name}_run({packed_names}, y, workspace));
        times[run] = now() - begin;
    }}
    qsort(times, RUNS, sizeof *times, longer);
    difference /= largest > 0 ? largest : 1;
    printf("%s: {name}: largest error %.1e, allowed {tolerance!r}{sampled}; %.1f us\\n",
           difference <= {tolerance!r} ? "right" : "wrong", difference, 5e5 * (times[RUNS / 2 - 1] + times[RUNS / 2]));
{freed}    free(wanted);
    free(y);
    free(workspace);
    return difference <= {tolerance!r} ? 0 : 1;
}}
"""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """One kernel as the texts need it. Operands are in the order of the operation."""

    name: str
    problem: Problem
    configuration: str
    shapes: Mapping[str, Shape]
    types: Mapping[str, str]  # of the plain operands
    output: Shape
    constant: str | None  # the operand that is packed
    pack: str  # the text of static void NAME_order(const TYPE *, void *); empty without a constant
    packed_bytes: int
    launch: Launch
    shares: int
    entries: Mapping[str, str]  # entry of a phase -> its name in the object
    reference: ReferenceText

    @property
    def given(self) -> list[str]:
        """The names of the operands that the kernel is given: `packed` for its constant."""
        return ["packed" if name == self.constant else name for name in self.shapes]

    def words(self) -> dict[str, object]:
        """The words of the templates."""
        y = C_TYPES[self.problem.element.result.name]
        plain = [f"const {C_TYPES[self.types[name]]} *{name}" for name in self.shapes]
        packed = ["const void *packed" if name == self.constant else text
                  for name, text in zip(self.shapes, plain, strict=True)]
        return {"name": self.name, "name_upper": self.name.upper(), "y": y, "plain_operands": ", ".join(plain),
                "packed_operands": ", ".join(packed), "names": ", ".join(self.shapes),
                "packed_names": ", ".join(self.given), "problem": self.problem.key, "constant": self.constant}

    def source(self) -> str:
        """The functions."""
        words, names = self.words(), self.given
        further = names[MOST_OPERANDS:]
        addresses = [*names[:MOST_OPERANDS], *["NULL"] * (MOST_OPERANDS - len(names))]
        count = len(self.launch.arguments)
        copied = "".join([f"    int64_t arguments[{count}];\n"
                          f"    memcpy(arguments, {self.name}_arguments, sizeof arguments);\n",
                          *(f"    arguments[{count - len(further) + at}] = (int64_t)(intptr_t){name};\n"
                            for at, name in enumerate(further))]) if further else ""
        plain = _PLAIN.format(**words)
        pack = ""
        if self.constant is not None:
            dtype = C_TYPES[self.types[self.constant]]
            pack = (f"{self.pack}\nvoid {self.name}_pack(const {dtype} *{self.constant}, void *packed)\n{{\n"
                    f"    {self.name}_order({self.constant}, packed);\n}}\n")
            plain = _PLAIN_PACKED.format(**{**words, "names": words["packed_names"]})
        return _KERNEL.format(
            **words, entries=", ".join(dict.fromkeys(self.entries.values())),
            arguments=", ".join(map(_number, self.launch.arguments)) or "0",
            phases=", ".join(f"{{{self.entries[phase.entry]}, {phase.tasks}, {phase.runs}}}"
                             for phase in self.launch.phases),
            pack=pack, addresses=", ".join(addresses), further=copied, plain=plain,
            given="arguments" if further else f"{self.name}_arguments")

    def declarations(self) -> str:
        """The part of the header."""
        words = self.words()
        arrays = "\n".join(f"   {name}: {C_TYPES[self.types[name]]} {_shape(shape)}{_encoding(self.types[name])}"
                           for name, shape in self.shapes.items())
        y = self.problem.element.result.name
        pack = packing = ""
        if self.constant is not None:
            packing = f"#define {self.name.upper()}_PACKED_BYTES {self.packed_bytes}\n"
            pack = (f"/* The order of {self.constant} in which the kernel reads it. */\n"
                    f"void {self.name}_pack(const {C_TYPES[self.types[self.constant]]} *{self.constant}, "
                    "void *packed);\n")
        return _DECLARED.format(
            **words, configuration=self.configuration, phases=len(self.launch.phases), shares=self.shares,
            workspace=4 * self.launch.workspace, packing=packing, pack=pack,
            arrays=f"{arrays}\n   y: {C_TYPES[y]} {_shape(self.output)}{_encoding(y)}")

    def check(self) -> str:
        """The function that checks the kernel."""
        words, count, y = self.words(), math.prod(self.output), self.problem.element.result.name
        work = self.reference.work * count
        compared = count if work <= SAMPLED_FROM else max(1, int(SAMPLED_FROM / self.reference.work))
        arrays = "".join(
            f"    {C_TYPES[self.types[name]]} *{name} = memory({math.prod(shape)} * sizeof *{name});\n"
            for name, shape in self.shapes.items())
        fills = "".join(f"    fill_{self.types[name]}({name}, {math.prod(shape)}, {seed << 40});\n"
                        for seed, (name, shape) in enumerate(self.shapes.items()))
        packed = "" if self.constant is None else (
            f"    void *packed = memory({self.name.upper()}_PACKED_BYTES);\n")
        order = "" if self.constant is None else f"    {self.name}_pack({self.constant}, packed);\n"
        return _CHECK.format(
            **words, reference=self.reference.c.replace("double expected(", f"double expected_{self.name}("),
            arrays=arrays, packed=f"{packed}{fills}{order}", count=count, compared=compared,
            place="turn" if compared == count else f"(int64_t)(drawn((uint64_t)turn) % {count})",
            sampled="" if compared == count else f" (of {compared} of {count} elements)", value=f"value_{y}",
            tolerance=self.reference.tolerance,
            freed="".join(f"    free({name});\n" for name in (*self.shapes, *(["packed"] if packed else []))))


def library_source(library: str, kernels: Sequence[CpuKernel], needs: str, headers: str, supported: str) -> str:
    """The C file of a library. `supported` is the function of this name, `headers` the lines that it needs."""
    prelude = _PRELUDE.format(library=library, needs=needs, headers=headers, supported=supported)
    return prelude + "".join(kernel.source() for kernel in kernels)


def library_header(library: str, kernels: Sequence[CpuKernel], about: str) -> str:
    """The header of a library."""
    return _HEADER.format(library=library, about=about, guard=f"{library.upper()}_H",
                          kernels="".join(kernel.declarations() for kernel in kernels))


def check_source(library: str, kernels: Sequence[CpuKernel]) -> str:
    """The program that checks a library."""
    dtypes = {dtype for kernel in kernels for dtype in kernel.types.values()}
    read = {dtype for kernel in kernels for dtype in (*kernel.reference.dtypes, kernel.problem.element.result.name)}
    calls = "".join(f"    wrong |= check_{kernel.name}();\n" for kernel in kernels)
    return "".join([_CHECK_HEAD.format(library=library, inputs=c_inputs(dtypes) + c_values(read)),
                    *(kernel.check() for kernel in kernels),
                    f"\nint main(void)\n{{\n    int wrong = 0;\n{calls}    return wrong;\n}}\n"])


def _number(value: int) -> str:
    """An integer of 64 bits in C."""
    return f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN"


def _shape(shape: Shape) -> str:
    return f"[{']['.join(map(str, shape))}]"


def _encoding(dtype: str) -> str:
    return f" ({dtype} as its bits)" if dtype in ("bf16", "fp16") else ""
