"""nvidia-matmul-heuristics as a peer: its first answer for Triton, mapped to a configuration of our Triton kernel.

An optional package of NVIDIA's, which answers analytically. It is a peer to time; nothing here learns from it, and its
answers are in no data set.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from seqtune.errors import UnavailableError
from seqtune.kernels.problem import Problem

PRECISIONS = {"fp16": "HSH", "bf16": "TST", "fp32": "SSS"}  # operands, sum, result


@cache
def package() -> Any:
    """The package. Raises UnavailableError if it is not installed."""
    try:
        return importlib.import_module("nvMatmulHeuristics")
    except (ImportError, OSError) as error:
        raise UnavailableError(f"nvidia-matmul-heuristics is not usable here: {error!s:.100}") from None


def gpu_of(model: str, names: list[str]) -> str | None:
    """The package's name of a GPU: the first one whose letters and digits begin the model's, SXM before PCIe."""
    words = re.sub(r"[^A-Z0-9]+", " ", model.upper()).split()
    order = sorted(names, key=lambda name: ("SXM" not in name, name))
    for name in order:
        first, *rest = name.split("_")
        number = first if any(letter.isdigit() for letter in first) else "".join(rest[:1])
        if number in words:
            return name
    return None


@cache
def interface(gpu: str, layout: str, precision: str) -> Any:
    """The package's interface with the table of a layout loaded."""
    library = package()
    heuristics = library.NvMatmulHeuristicsInterfaceEx(
        backend=library.NvMatmulHeuristicsTarget.TRITON,
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=getattr(library.NvMatmulHeuristicsNvidiaGpu, gpu))
    heuristics.loadInternalDiscoverySet(getattr(library.NvMatmulHeuristicsMatmulLayout, layout), precision=precision)
    return heuristics


def first_answer(problem: Problem, model: str) -> Mapping[str, int]:
    """The first answer for a matrix product on a GPU, in the words of triton.gemm.

    Raises UnavailableError if the package is missing or does not know the GPU or the element type.
    """
    library = package()
    gpu = gpu_of(model, [name for name in dir(library.NvMatmulHeuristicsNvidiaGpu) if name[0].isupper()])
    precision = PRECISIONS.get(str(problem["dtype"]))
    if gpu is None or precision is None:
        raise UnavailableError(f"nvidia-matmul-heuristics does not know {model} with {problem['dtype']}")
    layout = "".join("T" if problem[f"trans_{operand}"] == "yes" else "N" for operand in "ab") + "_ROW_MAJOR"
    heuristics = interface(gpu, layout, precision)
    asked = heuristics.makeNvMatmulHeuristicsProblem(
        problem.size("m"), problem.size("n"), problem.size("k"),
        getattr(library.NvMatmulHeuristicsMatmulLayout, layout))
    answers = heuristics.get(asked, 1, precision=precision)
    if not answers:
        raise UnavailableError(f"nvidia-matmul-heuristics has no answer for {problem.brief()}")
    answer = answers[0]["kernel"]
    warps = (answer.cta_tile_m // answer.warp_tile_m) * (answer.cta_tile_n // answer.warp_tile_n)
    return {"BLOCK_M": answer.cta_tile_m, "BLOCK_N": answer.cta_tile_n, "BLOCK_K": answer.cta_tile_k,
            "GROUP_M": answer.swizzle_factor, "SPLIT_K": answer.split_k, "num_warps": warps,
            "num_stages": answer.stages}
