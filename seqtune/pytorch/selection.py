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
from torch import Tensor, nn

from seqtune.kernels.problem import Problem
from seqtune.predictor.say import Say
from seqtune.tuner.backends.backend import BuildError, wall_clock
from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder
from seqtune.tuner.measuring.timing import sample

from ..api import predict
from ..errors import KernelError, SeqtuneError
from .kept_layers import KeptConvolution, KeptProduct
from .network.nodes import Layer
from .saved_choices import Choice

TOLERANCE = 1e-3  # largest allowed max|difference| / max|reference|
ROUNDS = 11  # interleaved samples of the kernel and of PyTorch's operation
SAMPLE_SECONDS = 5e-4
SPLIT = 1.1  # PyTorch's time: a layer that stays PyTorch's cuts the program in two, which costs more than a tenth


def choose(layers: Sequence[Layer], binder: KernelBinder, *, verify: bool, seconds: float, checkpoint: str | Path,
           journal: str | Path | None, progress: Say) -> list[Choice]:
    """Choose a kernel for each layer; equal layers are predicted once.

    With `verify` the kernel is measured beside PyTorch's operation; `seconds` is the time budget of one verification.
    PyTorch's operation is also kept where no kernel solves a layer.
    """
    known: dict[Problem, Choice] = {}
    distinct = dict.fromkeys(layer.problem for layer in layers)
    for layer in layers:
        problem = layer.problem
        if problem in known:
            continue
        progress(f"layer {len(known) + 1}/{len(distinct)}: {problem.brief()}")
        try:
            found = predict(problem, binder.device, verify=verify, seconds=seconds, checkpoint=checkpoint,
                            journal=journal)
        except KernelError as reason:
            progress(f"PyTorch's operation stays: {reason}")
            known[problem] = Choice(problem, None)
            continue
        choice = Choice(problem, found.configuration)
        known[problem] = _compare(layer, choice, binder) if verify else choice
    return [known[layer.problem] for layer in layers]


def _ours(layer: Layer, choice: Choice, binder: KernelBinder) -> Callable[[Tensor], Tensor]:
    """The chosen kernel with the layer's weights. Raises SeqtuneError where it does not build."""
    assert choice.configuration is not None
    try:
        kernel = binder.bind(layer.problem, choice.configuration, layer.weights, layer.bias)
    except BuildError as error:
        raise SeqtuneError(f"{choice.configuration.kernel} {choice.configuration.brief()} does not build on "
                           f"{binder.device.name}: {error}") from None
    form = torch.channels_last if len(layer.shape) == 4 else torch.contiguous_format

    def run(x: Tensor) -> Tensor:
        y = torch.empty(layer.shape, memory_format=form)
        kernel(x.data_ptr(), y.data_ptr())
        return y

    return run


def _theirs(layer: Layer) -> nn.Module:
    """PyTorch's operation with packed weights where that works and is faster, else as users call it."""
    kind: Any = KeptProduct if layer.work.type == "gemm" else KeptConvolution
    weights = torch.from_numpy(layer.weights)
    bias = None if layer.bias is None else torch.from_numpy(layer.bias)
    plain = kind(layer.problem, weights, bias, packed=False)
    try:
        packed = kind(layer.problem, weights, bias, packed=True)
        x = _operand(layer)
        if difference([plain(x)], [packed(x)]) < TOLERANCE:
            times = _beside({"plain": lambda: plain(x), "packed": lambda: packed(x)})
            return packed if times["packed"] < times["plain"] else plain  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # a PyTorch without oneDNN, or a shape that oneDNN does not pack
        pass
    return plain  # type: ignore[no-any-return]


def _operand(layer: Layer) -> Tensor:
    x = torch.randn(layer.inputs[0].shape, generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=torch.channels_last) if len(layer.shape) == 4 else x


def _compare(layer: Layer, choice: Choice, binder: KernelBinder) -> Choice:
    """The choice with both times; PyTorch's operation where the kernel is slower by more than SPLIT."""
    ours, theirs, x = _ours(layer, choice, binder), _theirs(layer), _operand(layer)
    with torch.no_grad():
        times = _beside({"ours": lambda: ours(x), "theirs": lambda: theirs(x)})
    won = times["ours"] < SPLIT * times["theirs"]
    return replace(choice, configuration=choice.configuration if won else None, seconds=times["ours"],
                   pytorch_seconds=times["theirs"])


def _beside(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
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
    """The largest max|difference| / max|reference|; infinite where shapes or counts differ."""
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return math.inf
    worst = 0.0
    for reference, result in zip(expected, actual, strict=True):
        if reference.numel():
            error = (result.double() - reference.double()).abs().max() / reference.double().abs().max().clamp(min=1e-30)
            worst = max(worst, float(error)) if not torch.isnan(error) else math.nan
    return worst
