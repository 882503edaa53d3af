"""Small problems with every feature at odds, and OpenCL devices, for the tests of kernel families."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from seqtune.errors import ProblemError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.table import operation as registered
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

Pick = Callable[..., int]
MOST_DRAWS = 20_000

CPU = Device("opencl:cpu", "opencl", "skylake-avx512", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=512,
             vector_registers=32, local_memory=1 << 20, max_work_group=4096)
GPU = Device("opencl:gpu", "opencl", "gpu", "opencl-c-1.2", threads=0, compute_units=100, vector_bits=128,
             vector_registers=64, local_memory=48 << 10, max_work_group=1024)


def odd_problems(family: Kernel, device: Device, count: int, seed: int) -> list[Problem]:
    """Problems with strides, dilations, groups, padding, tails, layouts and epilogues that the family solves."""
    generator = np.random.default_rng(seed)

    def pick(*values: int) -> int:
        return values[generator.integers(len(values))]

    operation = registered(family.operation)
    odd = {"gemm": _product, "conv2d": _convolution, "fused_moe": _experts,
           "scaled_gemm": _scaled, "attention": _attention}.get(operation.name)
    found: list[Problem] = []
    for _ in range(MOST_DRAWS):
        if len(found) == count:
            return found
        epilogue: dict[str, Any] = {} if odd is None or "activation" not in operation.by_name else {
            "bias": ("no", "yes")[pick(0, 1)], "activation": ("none", "relu")[pick(0, 1)]}
        features = operation.draw(generator) if odd is None else {**epilogue, **odd(pick)}
        with suppress(ProblemError):  # a filter larger than the input
            problem = _in_a_type_of(family, device, Problem.make(operation.name, **features), len(found))
            if family.why_not(problem, device) is None:
                found.append(problem)
    raise AssertionError(f"{family.name} solves {len(found)} of {MOST_DRAWS} problems; {count} are needed")


def _in_a_type_of(family: Kernel, device: Device, problem: Problem, number: int) -> Problem:
    """The problem in fp16, bf16 or int8, by turns if the family solves it in several, and not as it is."""
    if dict(problem).get("dtype") != "fp32" or family.why_not(problem, device) is None:
        return problem
    others = [Problem.make(problem.type, **{**dict(problem), "dtype": dtype}) for dtype in ("fp16", "bf16", "int8")]
    solved = [other for other in others if family.why_not(other, device) is None]
    return solved[number % len(solved)] if solved else problem


def paper_device(backend: str) -> Device:
    """A device of the backend with every fact, which need not be here: kernels are declared for it, and not run."""
    if (gpu := described(backend, "h100")) is not None:
        return gpu
    return Device(f"{backend}:paper", backend, "haswell", "avx2", threads=2, compute_units=80, vector_bits=256,
                  vector_registers=64, local_memory=48 << 10, max_work_group=1024, l1_bytes=32 << 10, l2_bytes=1 << 20,
                  l3_bytes=8 << 20, extra=(("bf16_dots", 1), ("amx_bf16", 1)) if backend == "llvm" else ())


def solved_problem(family: Kernel, device: Device) -> Problem:
    """The one of several odd problems that leaves the family the most configurations."""
    return max(odd_problems(family, device, 12, seed=0), key=lambda problem: len(SearchSpace(family, problem, device)))


def problems_of_equal_constants(family: Kernel, device: Device) -> list[Problem]:
    """Problems that the family solves whose packed operand has one shape, and which differ in everything else."""
    alternatives: list[dict[str, int | str]] = [{}]
    if family.operation == "gemm":
        alternatives = [{"m": 13, "n": 48, "k": 48, "trans_b": flag} for flag in ("no", "yes")]
    elif family.operation == "conv2d":
        alternatives = [{"c": c, "h": 20, "w": 20, "k": 64, "r": 3, "s": 3, "groups": groups, "layout": layout}
                        for groups, c in ((1, 32), (2, 64), (4, 128), (64, 64)) for layout in ("NCHW", "NHWC")]
    base = {} if alternatives[0] else dict(solved_problem(family, device))
    problems = [_in_a_type_of(family, device, Problem.make(family.operation, **{**base, **features}), 0)
                for features in alternatives]
    return [problem for problem in problems if family.why_not(problem, device) is None]


def _product(pick: Pick) -> dict[str, int | str]:
    return {"m": pick(1, 2, 7, 13, 33, 65, 100), "n": pick(1, 3, 4, 7, 16, 17, 40, 50, 129),
            "k": pick(1, 2, 3, 5, 8, 16, 24, 32, 64, 70), "trans_a": ("no", "yes")[pick(0, 1)],
            "trans_b": ("no", "yes")[pick(0, 1)]}


def _convolution(pick: Pick) -> dict[str, int | str]:
    """Draw a convolution of any kind, or of a kind that special families are for."""
    groups = pick(1, 1, 1, 2, 3)
    c, k = groups * pick(1, 2, 3, 4, 5, 8, 16), groups * pick(1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 33, 48, 70)
    some: dict[str, int | str] = {
        "n": pick(1, 1, 2, 3), "c": c, "h": pick(1, 5, 7, 9, 12), "w": pick(1, 6, 7, 10, 13, 30), "k": k,
        "r": pick(1, 2, 3, 5), "s": pick(1, 2, 3, 4), "pad_h": pick(0, 0, 1, 2), "pad_w": pick(0, 0, 1, 3),
        "stride_h": pick(1, 1, 2, 3), "stride_w": pick(1, 1, 2, 3), "dilation_h": pick(1, 1, 2),
        "dilation_w": pick(1, 1, 3), "groups": groups, "layout": ("NCHW", "NHWC")[pick(0, 1)]}
    plain = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1)
    kinds: tuple[dict[str, int], ...] = ({}, {}, {"r": 1, "s": 1}, {"r": 3, "s": 3, **plain}, {"groups": c, "k": c})
    return {**some, **kinds[pick(*range(len(kinds)))]}


def _experts(pick: Pick) -> dict[str, int | str]:
    scales = pick(0, 64, 128)
    return {"tokens": pick(1, 3, 16, 100, 4096), "experts": pick(1, 8, 60, 256), "top_k": pick(1, 2, 8),
            "hidden": pick(512, 2048, 7168), "intermediate": pick(100, 768, 2048), "half": ("up", "down")[pick(0, 1)],
            "dtype": ("bf16", "fp16", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")[pick(*range(6))],
            "scale_n": scales, "scale_k": scales, "expert_parallel": pick(1, 1, 8)}


def _scaled(pick: Pick) -> dict[str, int | str]:
    scales = pick(32, 64, 128)
    return {"m": pick(1, 3, 16, 100, 4096), "n": pick(100, 512, 2048), "k": pick(512, 7168),
            "dtype": ("fp8_w8a8", "int8_w8a8")[pick(0, 1)], "scale_n": scales, "scale_k": scales}


def _attention(pick: Pick) -> dict[str, int | str]:
    group = pick(1, 1, 2, 3)
    return {"n": pick(1, 1, 2, 3), "heads": group * pick(1, 2, 3), "group": group,
            "q_len": pick(1, 3, 4, 7, 16, 17, 33, 50, 65), "kv_len": pick(1, 3, 4, 7, 16, 33, 70, 130),
            "head_dim": pick(1, 4, 8, 12, 16, 20, 64), "value_dim": pick(3, 4, 8, 16, 23, 40),
            "causal": ("no", "yes")[pick(0, 1)], "mask": ("none", "keys", "scores")[pick(0, 1, 2)],
            "layout": ("heads", "tokens")[pick(0, 1)]}


def random_convolution(generator: np.random.Generator) -> Problem:
    """Draw a convolution with odd sizes, strides, dilations and groups."""
    def pick(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    groups, r, s = pick(1, 1, 2, 3), pick(1, 2, 3, 5), pick(1, 1, 3, 4)
    epilogue = {"layout": "NHWC", "bias": "yes", "activation": "relu"} if pick(0, 1) else {}
    return Problem.make(
        "conv2d", n=pick(1, 2, 3), c=groups * pick(1, 3, 8, 64), k=groups * pick(1, 3, 5, 18, 72), groups=groups,
        r=r, s=s, h=pick(9, 13, 16), w=pick(9, 11, 30), pad_h=pick(0, 1, 2), pad_w=pick(0, 1, 2),
        stride_h=pick(1, 2, 3), stride_w=pick(1, 2), dilation_h=pick(1, 2), dilation_w=pick(1, 2), **epilogue)
