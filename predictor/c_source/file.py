"""CFile: a predictor as one file of C99 and its header."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.registry import is_registered, kernel, table

from ..checkpoint import Checkpoint
from ..model import Model
from ..sequence.beam import WIDTH
from ..sequence.vocabulary import BEGIN
from ..translator.dimensions import Dimensions
from ..translator.row_text import GELU_TAIL
from ..trees.ranker import PROPOSALS, TAU
from .facts import FactTables
from .header import MOST_PROPOSALS, header
from .library import CLibrary
from .network_tables import network_tables
from .weights import BASE, OFFSET, PANEL, STRING

_RUNTIME = Path(__file__).parent / "runtime"
_BATCH = 48  # words that are scored together
_ROWS_OF_BEAM = 8  # hypotheses that are decoded together: AVX-512 computes 8 rows at once
# name, bytes of a vector, rows whose sums the registers hold, and the instructions that a function may use
_VARIANTS = (("any", 16, 4, ""), ("avx2", 32, 6, "avx2,fma"),
             ("avx512", 64, 8, "avx512f,avx512bw,avx512dq,avx512vl,fma"))
_START = """#include <math.h>
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


def c_file(model: Model, libraries: Sequence[str] = ()) -> CFile:
    """Write a checkpoint's translator and judge; `libraries` are those whose kernels are wanted, by default all.

    Its trees are left out. Raises MisuseError, CheckpointError, ExpressionError.
    """
    if not isinstance(model, Checkpoint):
        raise MisuseError(f"a {type(model).__name__} has no form in C; train a checkpoint")
    size = model.size
    kernels = _wanted(_kernels(model), libraries, model.libraries)
    model.check_kernels(kernels)
    library = CLibrary.of(model.vocabulary, kernels)
    facts = FactTables(library, size)
    weights = network_tables(size, model.state, library, facts)
    if weights.deepest > 2048:
        raise MisuseError(f"this checkpoint has a layer of {weights.deepest} inputs; in C there are at most 2048")
    own = library.sizes()
    sizes = {
        **own, **_network_sizes(size), "SLOTS": facts.slots, "POSITIONS": facts.positions, "MAPS": size.facts,
        "TARGETS": len(library.targets), "BEGIN": library.targets[BEGIN],
        "CODES": 1 if size.facts else facts.positions, "USUAL": PROPOSALS if size.judge else WIDTH,
        "DEEPEST": weights.deepest, "KEPT": max(1, weights.kept),
        "CANDIDATES": max(MOST_PROPOSALS * own["MOST_VALUES"], len(kernels))}
    answers = _answers(model)
    interface = header(f"Predicts tuning parameters of {', '.join(family.name for family in kernels)}. Made by seqtune "
                       f"from a checkpoint; what answers: {answers}.", library.operations, library.extras,
                       library.parameters)
    defines = "\n".join(f"#define SQ_{name} {value}" for name, value in sizes.items())
    tables = facts.text()
    listed = library.text()  # last: it lists all words
    pieces = ["model", "layers", "codes", "fixed_words" if size.fixed_words else "words", "source", "beam",
              "judge" if size.judge else "beam_order", "predict"]
    parts = [interface, _START, defines, runtime("types"), runtime("arithmetic"), listed, runtime("space"),
             weights.text(), _math(), *weights.lines, weights.kept_table(), tables, *map(runtime, pieces)]
    source = "\n\n".join(part.strip() for part in parts) + "\n"
    report: dict[str, str | int] = {"kernels": len(kernels), "weights": weights.quads * 4 * PANEL,
                                    "bytes": len(source), "answers": answers}
    return CFile(source, interface + "\n", report, tuple(library.operations), library.extras, library.parameters)


def _answers(checkpoint: Checkpoint) -> str:
    """The parts of a checkpoint that answer in C, as text for readers."""
    answers = "the translator" + (" and its judge" if checkpoint.size.judge else "")
    if checkpoint.ranker is not None:
        answers += ("; the boosted trees of the checkpoint are left out: it answers as `evaluate` does with the method "
                    "transformer")
    if checkpoint.choices is not None and checkpoint.choices.trees is not None:
        answers += "; the boosted trees of the checkpoint are left out"
    return answers


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
    if checkpoint.choices is not None:
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
