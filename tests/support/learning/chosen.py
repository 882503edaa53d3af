"""Choices of a tuner that always takes the same block: a small data set without times, and a short training on it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from seqtune.data.dataset import ADDED, SCHEMA, TYPES, Dataset
from seqtune.data.record import Status
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.trees.cost_trees import TreesOptions

KERNEL = "triton.scaled_gemm"
TOKENS = (1, 8, 16, 32, 64, 128, 256, 1024)
TREES = TreesOptions(rounds=30, rate=0.3, depth=4, models=1, threads=1, least_weight=0.2)
OPTIONS = TrainingOptions(epochs=8, batch=8, rate=3e-3, average=0.9, extra=0, examples=16, width=32, layers=1,
                          hidden=64, judge=32, trees=TREES, threads=1, confidence=False, validation=0.2)


def choice_of(problem: Problem) -> Configuration:
    """The block is as high as the number of tokens, at least 16 and at most 128 rows; the rest is always the same."""
    return Configuration.of(KERNEL, {
        "BLOCK_SIZE_M": min(128, max(16, problem.size("m"))), "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128,
        "GROUP_SIZE_M": 8, "num_warps": 4, "num_stages": 3, "waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1})


def chosen_dataset(models: Sequence[str] = ("a100", "h200"), sizes: Sequence[int] = (1024, 4096),
                   held_out: Sequence[int] = ()) -> Dataset:
    """The choices for products of `sizes` columns and of TOKENS rows on GPUs; those of `held_out` rows are held out."""
    rows, problems, devices = [], {}, {}
    for model in models:
        device = described("triton", model)
        assert device is not None
        devices[device.key] = device
        for size in sizes:
            for tokens in TOKENS:
                problem = Problem.make("scaled_gemm", m=tokens, n=size, k=2048)
                problems[problem.key] = problem
                assert Task.of(problem, device).find(choice_of(problem)) is not None
                rows.append({"device": device.key, "problem": problem.key, "kernel": KERNEL, "kernel_version": 1,
                             "configuration": json.dumps(dict(choice_of(problem).settings)),
                             "status": Status.CHOSEN.value, "seconds": np.inf, "spread": 0.0, "samples": 0,
                             "error": np.nan, "build_seconds": 0.0, "run": "tuned", "toolchain": "triton 3.6.0",
                             **ADDED})
    hidden = frozenset(key for key, problem in problems.items() if problem.size("m") in held_out)
    return Dataset(pd.DataFrame(rows, columns=SCHEMA.names).astype(TYPES), devices, problems, hidden)
