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

from ..labels.inputs import FACTS
from ..labels.model import LabelModel
from ..model import Model
from ..sequence.beam import WIDTH
from ..sequence.vocabulary import BEGIN
from ..times.model import TimesModel
from ..translator.dimensions import Dimensions
from ..translator.row_text import GELU_TAIL
from ..trees.ranker import PROPOSALS, TAU
from .facts import FactTables
from .header import MOST_PROPOSALS, header
from .label_tables import OPERATION, LabelInputs, label_tables
from .library import CLibrary
from .times_tables import times_tables
from .weights import BASE, OFFSET, PANEL, STRING, Weights

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
    """Write a model of any kind that has a form in C; `libraries` are those whose kernels are wanted, by default all.

    Raises MisuseError, CheckpointError, ExpressionError.
    """
    if isinstance(model, LabelModel):
        return labels_file(model, libraries)
    if isinstance(model, TimesModel):
        return times_file(model, libraries)
    raise MisuseError(f"a {type(model).__name__} has no form in C; train a checkpoint")


def times_file(checkpoint: TimesModel, libraries: Sequence[str] = ()) -> CFile:
    """Write a translator of measured times with its judge. Its trees are left out. Raises as `c_file` does."""
    size, vocabulary = checkpoint.size, checkpoint.vocabulary
    kernels = _wanted([kernel(name) for name in _registered(checkpoint)], libraries, checkpoint.libraries)
    checkpoint.check_kernels(kernels)
    library = CLibrary.of(vocabulary, kernels)
    facts = FactTables(library)
    tables, weights = facts.text(), times_tables(size, checkpoint.state, vocabulary)
    usual = PROPOSALS if size.judge else WIDTH
    constants = {
        **_network_sizes(size), "POSITIONS": facts.positions(), "DERIVED": size.derived,
        "QUANTITIES": max(1, size.quantities), "USUAL": usual, "SUMS": size.width, "BEGIN_STAYS": 1}
    answers = "the translator" + (" and its judge" if size.judge else "")
    pieces = ["codes", "times_source", "times_words", "beam", "judge" if size.judge else "beam_order"]
    model = """typedef struct {
    float codes[SQ_POSITIONS * SQ_NUMBER_CODE], mean[SQ_WIDTH], quantities[SQ_QUANTITIES];
    unsigned char have[SQ_TARGETS]; /* whether the word's vector is computed */
    float vectors[SQ_TARGETS * SQ_WIDTH], asked[SQ_BEAM * (SQ_WIDTH + SQ_HIDDEN)], states[SQ_BEAM * SQ_WIDTH];
    const sq_quantity *resolved; /* the first one of those whose weights are in `rows` */
    float rows[(SQ_FRESH + 1) * 6 * SQ_WIDTH], numbers[SQ_BATCH * (SQ_FRESH + 1) * 6];
} sq_model;"""
    missing = "" if checkpoint.ranker is None else (
        "; the boosted trees of the checkpoint are left out: it answers as `evaluate` does with the method transformer")
    return _file(library, constants, weights, tables, model, pieces, answers + missing, True)


def labels_file(checkpoint: LabelModel, libraries: Sequence[str] = ()) -> CFile:
    """Write a label translator. Its chains of boosted trees are left out. Raises as `c_file` does."""
    size, vocabulary = checkpoint.size, checkpoint.vocabulary
    kernels = _wanted([family for family in checkpoint.kernels().values() if family.operation == OPERATION], libraries,
                      checkpoint.libraries)
    library = CLibrary.of(vocabulary, kernels, FACTS)
    inputs, weights = LabelInputs(library), label_tables(size, checkpoint.state, vocabulary)
    constants = {**_network_sizes(size), **inputs.sizes(), "USUAL": WIDTH, "SUMS": 1, "BEGIN_STAYS": 0}
    constants["SLOTS"] = max(library.sizes()["SLOTS"], inputs.slots)
    model = "typedef struct { float codes[SQ_MOST_SIZES * SQ_SIZE_CODE]; } sq_model;"
    missing = "; the boosted trees of the checkpoint are left out" if checkpoint.chains else ""
    pieces = ["codes", "labels_source", "labels_words", "beam", "beam_order"]
    return _file(library, constants, weights, inputs.text(), model, pieces, f"the label translator{missing}", False)


def _file(library: CLibrary, constants: Mapping[str, int | str], weights: Weights, tables: str, model: str,
          pieces: Sequence[str], answers: str, tensors: bool) -> CFile:
    names = ", ".join(written.kernel.name for written in library.kernels)
    title = (f"Predicts tuning parameters of {names}. Made by seqtune from a checkpoint; what answers: {answers}.")
    interface = header(title, library.operations, library.extras, library.parameters)
    own = library.sizes()
    sizes = {**own, **constants, "DEEPEST": weights.deepest, "KEPT": max(1, weights.kept),
             "CANDIDATES": max(MOST_PROPOSALS * own["MOST_VALUES"], len(library.kernels))}
    if weights.deepest > 2048:
        raise MisuseError(f"this checkpoint has a layer of {weights.deepest} inputs; in C there are at most 2048")
    defines = "\n".join(f"#define SQ_{name} {value}" for name, value in sizes.items())
    listed = library.text(tensors)  # last: it lists all words
    parts = [interface, _START, defines, runtime("types"), runtime("arithmetic"), listed, runtime("space"),
             weights.text(), _math(), *weights.lines, weights.kept_table(), tables, model, runtime("layers"),
             *map(runtime, pieces), runtime("predict")]
    source = "\n\n".join(part.strip() for part in parts) + "\n"
    report: dict[str, str | int] = {"kernels": len(library.kernels), "weights": weights.quads * 4 * PANEL,
                                    "bytes": len(source), "answers": answers}
    return CFile(source, interface + "\n", report, tuple(library.operations), library.extras, library.parameters)


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
            "LAYERS": size.layers, "DEPTH": size.depth, "TARGETS": size.targets, "NUMBER_CODE": size.code,
            "JUDGE": size.judge, "BEGIN": BEGIN, "TAU": str(TAU), **tail}


def _registered(checkpoint: TimesModel) -> list[str]:
    """The names of the vocabulary's kernels, in the order in which tasks have them."""
    known = [declared.name for declared in checkpoint.vocabulary.kernels if is_registered(declared.name)]
    ordered = [name for backend in checkpoint.vocabulary.backends for name in table(backend) if name in known]
    return list(dict.fromkeys(ordered))


def _wanted(kernels: Sequence[Kernel], libraries: Sequence[str], known: Sequence[str]) -> list[Kernel]:
    wanted = [family for family in kernels if not libraries or family.name.partition(".")[0] in libraries]
    missing = [name for name in libraries if name not in known]
    if missing or not wanted:
        name = missing[0] if missing else "an installed library"
        raise MisuseError(f"the checkpoint knows no kernel of {name!s:.40}; it knows those of {', '.join(known)}")
    return wanted
