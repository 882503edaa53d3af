"""Selection: compares the predicted kernel of each layer with PyTorch's own operation on equal terms.

A layer counts as its product or convolution with bias and ReLU; other epilogues are compared as a ReLU.

Equal terms mean channels_last memory and weights packed before. PyTorch's operation runs in the faster of its two ways,
with packed weights or as users call it, and is kept unless the kernel is faster.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqtune.kernels.device import Device
from seqtune.kernels.element_types import dtype_of
from seqtune.kernels.problem import Problem
from seqtune.predictor.say import Say
from seqtune.tuner.backends.backend import wall_clock
from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder
from seqtune.tuner.measuring.timing import sample

from ..api import predict
from ..errors import CheckpointError, KernelError, one_line
from ..results import Prediction
from .contestants import contestants
from .network.nodes import Tuned
from .precisions import TOLERANCES
from .saved_choices import Choice

ROUNDS = 11  # interleaved samples of the kernel and of PyTorch's operation
SAMPLE_SECONDS = 5e-4
SPLIT = 1.1  # PyTorch's time: a layer that stays PyTorch's cuts the program in two, which costs more than a tenth


def choose(layers: Sequence[Tuned], binder: KernelBinder, *, verify: bool, seconds: float,
           checkpoint: str | Path | None, journal: str | Path | None, progress: Say) -> list[Choice]:
    """Choose a kernel for each layer; equal layers are predicted once.

    With `verify` the kernel is measured beside PyTorch's operation; `seconds` is the time budget of one verification.
    PyTorch's operation is also kept where no kernel solves a layer. Attention that the checkpoint does not know gets
    what `predict` answers without a checkpoint's name.
    """
    known: dict[Problem, Choice] = {}
    distinct = dict.fromkeys(layer.problem for layer in layers)
    for layer in layers:
        problem = layer.problem
        if problem in known:
            continue
        progress(f"layer {len(known) + 1}/{len(distinct)}: {problem.brief()}")
        try:
            found = _predicted(problem, binder.device, progress, verify=verify, seconds=seconds,
                               checkpoint=checkpoint, journal=journal)
        except KernelError as reason:
            progress(f"PyTorch's operation stays: {reason}")
            known[problem] = Choice(problem, None)
            continue
        choice = Choice(problem, found.configuration)
        known[problem] = _compare(layer, choice, binder) if verify else choice
    return [known[layer.problem] for layer in layers]


def _predicted(problem: Problem, device: Device, progress: Say, **options: Any) -> Prediction:
    try:
        return predict(problem, device, **options)
    except CheckpointError as error:
        if problem.type != "attention":  # checkpoints from before attention are in use
            raise
        progress(f"the shipped predictors answer for attention: {one_line(error, 200)}")
        return predict(problem, device, **{**options, "checkpoint": None})


def _compare(node: Tuned, choice: Choice, binder: KernelBinder) -> Choice:
    """The choice with both times; PyTorch's operation where the kernel is slower by more than SPLIT."""
    assert choice.configuration is not None
    with torch.no_grad():
        pair = contestants(node, choice.configuration, binder)
        theirs = pair.theirs[0]
        if len(pair.theirs) > 1 and difference([theirs()], [pair.theirs[1]()]) < TOLERANCES[dtype_of(node.problem)]:
            times = beside({"plain": theirs, "packed": pair.theirs[1]})
            theirs = pair.theirs[times["packed"] < times["plain"]]
        times = beside({"ours": pair.ours, "theirs": theirs})
    won = times["ours"] < SPLIT * times["theirs"]
    return replace(choice, configuration=choice.configuration if won else None, seconds=times["ours"],
                   pytorch_seconds=times["theirs"])


def beside(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds of each call, in rounds of a seeded random order after a warm-up."""
    calls = {name: sample(partial(wall_clock, run), SAMPLE_SECONDS, 1)[1] for name, run in runs.items()}
    least = dict.fromkeys(runs, math.inf)
    generator = random.Random(ROUNDS)
    for _ in range(ROUNDS):
        for name, run in generator.sample(list(runs.items()), len(runs)):
            run()
            seconds, calls[name] = sample(partial(wall_clock, run), SAMPLE_SECONDS, calls[name])
            least[name] = min(least[name], seconds)
    return least


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """The largest max|difference| / max|reference| of finite numbers; infinite where shapes or other numbers differ."""
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return math.inf
    worst = 0.0
    for reference, result in zip(expected, actual, strict=True):
        finite = reference.isfinite()
        if not torch.equal(finite, result.isfinite()) \
                or not torch.allclose(reference[~finite], result[~finite], equal_nan=True):
            return math.inf
        if finite.any():
            numbers, expected_numbers = result[finite].double(), reference[finite].double()
            error = (numbers - expected_numbers).abs().max() / expected_numbers.abs().max().clamp(min=1e-30)
            worst = max(worst, float(error))
    return worst
