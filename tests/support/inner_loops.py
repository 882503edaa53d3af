"""Inner loops of the llvm kernels for ARM, counted in their assembly.

A loop is a block of instructions that begins at a label and ends with a branch to it. A tile of P pixels (rows, or
tiles of a Winograd convolution) by V vectors ideally loads P + V registers for P V multiply-adds and does nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.llvm.offline_compiler import LLVMOfflineCompiler

_FUSED = ("fmla", "fmad")  # beginnings of the names of multiply-adds of vectors
_PAIRS = ("ldp", "ldnp")  # instructions that load two registers
_LABEL = re.compile(r"^([.\w$]+):")
_TARGET = re.compile(r"([.\w$]+)\s*(?://.*|;.*)?$")
# family -> its parameters whose product is the number of pixels of a tile, and that of its vectors
_TILES = {"llvm.direct": (("tile_w", "tile_h"), "vectors_k"), "llvm.gemm": (("tile_m",), "vectors_n"),
          "llvm.winograd": (("group",), "vectors_k")}


def shares_of_ideal(configuration: Configuration, words: str, compiler: LLVMOfflineCompiler) -> tuple[float, float]:
    """Multiply-adds for each load and for each instruction, relative to what the tile allows.

    They are those of the loop with the most multiply-adds: tiles at borders may have loops of their own.
    """
    source = llvm_implementation(kernel(configuration.kernel)).source(
        parse_problem(words), compiler.device, configuration)
    own = replace(source, options=())  # without the loops around it and the transforms, which are modules of their own
    fused, loads, instructions = max(_counts(compiler.assembly(own)), key=itemgetter(0))
    sides, vectors = _TILES[configuration.kernel]
    p, v = math.prod(configuration.number(name) for name in sides), configuration.number(vectors)
    return fused / loads * (p + v) / (p * v), fused / instructions * (p * v + p + v) / (p * v)


def _counts(assembly: str) -> Iterator[tuple[int, int, int]]:
    """The multiply-adds, the registers that are loaded, and the instructions of one pass of each inner loop."""
    for label, lines in _blocks(assembly):
        ends = [number for number, line in enumerate(lines, start=1)
                if (target := _TARGET.search(line)) is not None and target[1] == label]
        names = [line.split(None, 1)[0] for line in lines[:ends[-1]]] if ends else []
        if names:
            yield (sum(name.startswith(_FUSED) for name in names),
                   sum(name.startswith("ld") + (name in _PAIRS) for name in names), len(names))


def _blocks(assembly: str) -> Iterator[tuple[str, list[str]]]:
    """Labels, and the instructions that follow each up to the next one."""
    label, lines = "", list[str]()
    for line in assembly.splitlines():
        begins = _LABEL.match(line)
        if begins:
            yield label, lines
            label, lines = begins[1], []
        elif line.startswith("\t") and not line.startswith(("\t.", "\t//", "\t;")):
            lines.append(line.strip())
    yield label, lines
