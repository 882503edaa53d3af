"""CFile: a predictor as one file of C99 and its header."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.registry import is_registered, kernel, table

from ..checkpoint import Checkpoint
from ..proposing import SMALL
from ..sequence.beam import WIDTH
from ..sequence.vocabulary import BEGIN
from ..translator.numpy_layers import Dimensions
from ..translator.row_text import GELU_TAIL
from ..trees.ranker import PROPOSALS, TAU
from .difference import difference
from .facts import FactTables
from .header import MOST_PROPOSALS, error_texts, header
from .kernel import CKernel
from .library import CLibrary
from .network_tables import network_tables
from .processes import CProcesses, processes_in_c
from .public_names import PREFIX, check_prefix, with_prefix
from .trees import CTrees, ranker_in_c
from .weights import BASE, OFFSET, PANEL, STRING

_RUNTIME = Path(__file__).parent / "runtime"
_BATCH = 48  # words that are scored together
_TOGETHER = 64  # proposals that descend a tree together: their sets are bits of 64
_JUDGED = 32  # proposals that the judge reads together: its rows have room in those of the source
_ROWS_OF_BEAM = 8  # hypotheses that are decoded together: AVX-512 computes 8 rows at once
# name, bytes of a vector, rows whose sums the registers hold, and the instructions that a function may use
_VARIANTS = (("any", 16, 4, ""), ("avx2", 32, 6, "avx2,fma"),
             ("avx512", 64, 8, "avx512f,avx512bw,avx512dq,avx512vl,fma"))
_START = """#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__GNUC__)
#define SQ_UNUSED __attribute__((unused))
#else
#define SQ_UNUSED
#endif

static double sq_nan(void) SQ_UNUSED;
static double sq_nan(void) { return (double)NAN; }"""


@dataclass(frozen=True)
class CFile:
    """The text of the file, which contains the header, and the header alone."""

    source: str
    header: str
    report: Mapping[str, str | int]
    operations: tuple[Operation, ...]  # in the order of their numbers
    extras: tuple[str, ...]  # the last facts of the device's struct
    parameters: int  # SEQTUNE_PARAMETERS
    has_fractions: bool  # whether the struct of a setting ends with a fraction
    checkpoint: Checkpoint  # what answers as the file does


def c_file(checkpoint: Checkpoint, libraries: Sequence[str] = (), data: Callable[[], Dataset] | None = None,
           prefix: str = PREFIX) -> CFile:
    """Write what `in_c` leaves of a checkpoint; `libraries` are those whose kernels are wanted, by default all.

    With a data set, which is read last, the file says by how much its answers differ from the checkpoint's. The names
    that the header declares begin with `prefix`. Raises MisuseError, CheckpointError, ExpressionError, FormatError.
    """
    check_prefix(prefix)
    size = checkpoint.size
    kernels = _wanted(_kernels(checkpoint), libraries, checkpoint.libraries)
    checkpoint.check_kernels(kernels)
    library = CLibrary.of(checkpoint.vocabulary, kernels)
    written = in_c(checkpoint, library.kernels)
    facts = FactTables(library, size)
    weights = network_tables(size, checkpoint.state, library, facts)
    if weights.deepest > 2048:
        raise MisuseError(f"this checkpoint has a layer of {weights.deepest} inputs; in C there are at most 2048")
    tables, listed = facts.text(), library.text()  # before the others, which refer to words by their numbers
    trees = CTrees() if written.ranker is None else CTrees.of(written.ranker, library)
    processes = CProcesses() if written.processes is None else CProcesses.of(written.processes, library)
    own, ordered = library.sizes(), checkpoint.ranker is not None or bool(size.judge)
    sizes = {
        **own, **_network_sizes(size), **trees.sizes, **processes.sizes, "SLOTS": facts.slots,
        "POSITIONS": facts.positions, "MAPS": size.facts,
        "TARGETS": len(library.targets), "BEGIN": library.targets[BEGIN],
        "CODES": 1 if size.facts else facts.positions, "USUAL": PROPOSALS if ordered else WIDTH,
        "DEEPEST": weights.deepest, "KEPT": max(1, weights.kept),
        "PROPOSALS": max(SMALL, MOST_PROPOSALS), "SMALL": SMALL, "TOGETHER": _TOGETHER, "JUDGED": _JUDGED,
        "CANDIDATES": max(MOST_PROPOSALS * own["MOST_VALUES"], len(kernels))}
    answers = _answers(checkpoint, written)
    report: dict[str, str | int] = {"kernels": len(kernels), "weights": weights.quads * 4 * PANEL, "answers": answers}
    if data is not None:
        report["difference"] = str(difference(checkpoint, written, kernels, data()))
        answers += f". Compared with the checkpoint in Python, {report['difference']}"
    interface = header(f"Predicts tuning parameters of {', '.join(family.name for family in kernels)}. Made by seqtune "
                       f"from a checkpoint; what answers: {answers}.", library.operations, library.extras,
                       library.parameters, library.read, library.has_fractions)
    defines = "\n".join(f"#define SQ_{name} {value}" for name, value in sizes.items())
    pieces = ["model", "layers", "codes", "fixed_words" if size.fixed_words else "words", "source", "beam",
              *(["judge"] if size.judge else []), *(["trees"] if trees.lines else []),
              *(["processes"] if processes.lines else []), "order", "predict"]
    parts = [interface, _START, defines, runtime("types"), runtime("arithmetic"), listed, runtime("space"),
             weights.text(), _math(), *weights.lines, weights.kept_table(), tables, *trees.lines,
             *processes.lines, *map(runtime, pieces), error_texts()]
    source = with_prefix("\n\n".join(part.strip() for part in parts) + "\n", interface, prefix)
    return CFile(source, with_prefix(interface, interface, prefix) + "\n", {**report, "bytes": len(source)},
                 tuple(library.operations), library.extras, library.parameters, library.has_fractions, written)


def in_c(checkpoint: Checkpoint, kernels: Sequence[CKernel]) -> Checkpoint:
    """The checkpoint that answers as the C file of these kernels does."""
    labels = checkpoint.labels
    ranker = None if checkpoint.ranker is None else ranker_in_c(checkpoint.ranker, kernels)
    return replace(checkpoint, ranker=ranker, processes=processes_in_c(checkpoint.processes, ranker),
                   estimator=None, former=None, retrained_for=frozenset(),
                   labels=None if labels is None else labels.without_trees())


def _answers(checkpoint: Checkpoint, written: Checkpoint) -> str:
    """The parts of a checkpoint that answer in C, as text for readers."""
    parts = ["the translator", *(["its judge"] if checkpoint.size.judge else [])]
    left_out = []
    if written.ranker is not None and checkpoint.ranker is not None:
        kept, whole = (max(map(len, ranker.forests.values())) for ranker in (written.ranker, checkpoint.ranker))
        parts.append(f"{kept} of {whole} forests of boosted trees")
    elif checkpoint.ranker is not None:
        left_out.append("the boosted trees")
    if written.processes is not None:
        parts.append("Gaussian processes")
    elif checkpoint.processes is not None:
        left_out.append("the Gaussian processes")
    if checkpoint.labels is not None and checkpoint.labels.has_trees:
        left_out.append("the boosted trees")
    answers = ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]
    return answers + (f"; left out for their size: {' and '.join(left_out)}" if left_out else "")


def _math() -> str:
    """The matrix products in variants for different processors: bytes of a vector, rows together, target."""
    kernels, texts = runtime("math_kernels"), [runtime("math_start")]
    for name, size, rows, target in _VARIANTS:
        begin, end = ("", "") if not target else ("#if SQ_X86\n", "#endif\n")
        attribute = f' __attribute__((target("{target}")))' if target else ""
        texts.append(f"{begin}#define SQ_VARIANT {name}\n#define SQ_BYTES {size}\n#define SQ_ROWS_TOGETHER {rows}\n"
                     f"#define SQ_TARGET{attribute}\n\n{kernels}#undef SQ_VARIANT\n#undef SQ_BYTES\n"
                     f"#undef SQ_ROWS_TOGETHER\n#undef SQ_TARGET\n{end}")
    return "\n".join([*texts, runtime("math_choice")])


def runtime(name: str) -> str:
    """A part of the C code that is the same in every export."""
    return (_RUNTIME / f"{name}.c").read_text(encoding="utf-8")


def _network_sizes(size: Dimensions) -> dict[str, int | str]:
    head = size.width // size.heads
    if head % PANEL or size.hidden % PANEL or size.judge % PANEL or size.judge > 2 * size.width:
        raise MisuseError(f"this checkpoint has heads of {head}, blocks of {size.hidden} and a judge of {size.judge} "
                          f"numbers; in C they are multiples of {PANEL}, and the judge at most two widths")
    tail = {f"TAIL_{number}": f"{np.float32(coefficient) / np.float32(math.log(2))!s}f"  # of log2
            for number, coefficient in enumerate(GELU_TAIL)}
    return {"BASE": BASE, "STRING": STRING, "OFFSET": OFFSET, "BEAM": MOST_PROPOSALS, "BATCH": _BATCH,
            "ROWS_OF_BEAM": _ROWS_OF_BEAM, "WIDTH": size.width, "HEADS": size.heads, "HIDDEN": size.hidden,
            "LAYERS": size.layers, "DEPTH": size.depth, "NUMBER_CODE": size.code,
            "JUDGE": size.judge, "FIXED_WORDS": int(size.fixed_words), "SUMS": 1 if size.fixed_words else size.width,
            "QUANTITIES": max(1, size.quantities), "TAU": str(TAU), **tail}


def _kernels(checkpoint: Checkpoint) -> list[Kernel]:
    """The kernels that a checkpoint configures, in the order in which tasks have them."""
    if checkpoint.labels is not None:
        return list(checkpoint.kernels.values())
    known = [declared.name for declared in checkpoint.vocabulary.kernels if is_registered(declared.name)]
    ordered = [name for backend in checkpoint.vocabulary.backends for name in table(backend) if name in known]
    return [kernel(name) for name in dict.fromkeys(ordered)]


def _wanted(kernels: Sequence[Kernel], libraries: Sequence[str], known: Sequence[str]) -> list[Kernel]:
    wanted = [family for family in kernels if not libraries or family.name.partition(".")[0] in libraries]
    missing = [name for name in libraries if name not in known]
    if missing or not wanted:
        name = missing[0] if missing else "an installed library"
        raise MisuseError(f"the checkpoint knows no kernel of {name!s:.40}; it knows those of {', '.join(known)}")
    return wanted
