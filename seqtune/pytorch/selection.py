"""Duels: every layer of a graph by its predicted kernel, beside PyTorch's own operation on equal terms.

Equal terms: channels_last memory, and weights packed before. A kernel that is not faster gives way; PyTorch's operation
is itself the faster of its two ways, packed or as users call it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.llvm.calls import Caller
from seqtune.tuner.measuring.timing import sample

from ..api import predict
from ..errors import KernelError, SeqtuneError
from ..inputs import Say
from .graph import Layer
from .modules import LAST, KeptConvolution, KeptProduct, tuned_convolution, tuned_product
from .saved_choices import Choice

TOLERANCE = 1e-3  # of max|difference| / max|reference| of results
ROUNDS = 11  # of ours beside PyTorch's, a sample each
SAMPLE_SECONDS = 5e-4


def choose(layers: Sequence[Layer], caller: Caller, *, verify: bool, seconds: float, checkpoint: str | Path,
           journal: str | Path | None, progress: Say) -> list[Choice]:
    """What computes each layer: predicted once for layers alike, and with `verify` measured beside PyTorch's operation.

    `seconds` is what verifying one may take. PyTorch's is kept where no kernel solves a layer, too.
    """
    known: dict[Problem, Choice] = {}
    distinct = dict.fromkeys(layer.problem for layer in layers)
    for layer in layers:
        problem = layer.problem
        if problem in known:
            continue
        progress(f"layer {len(known) + 1}/{len(distinct)}: {problem.brief()}")
        try:
            found = predict(problem, caller.device, verify=verify, seconds=seconds, checkpoint=checkpoint,
                            journal=journal)
        except KernelError as reason:
            progress(f"PyTorch's operation stays: {reason}")
            known[problem] = Choice(problem, None)
            continue
        choice = Choice(problem, found.configuration)
        known[problem] = _duel(layer, choice, caller) if verify else choice
    return [known[layer.problem] for layer in layers]


def module_of(layer: Layer, choice: Choice, caller: Caller) -> nn.Module:
    """What computes a layer as chosen. Raises SeqtuneError where the kernel does not build here."""
    if choice.configuration is None:
        return _kept(layer)
    bias = None if layer.bias is None else layer.bias.numpy()
    try:
        call = caller.bind(layer.problem, choice.configuration, layer.weights.contiguous().numpy(), bias)
    except BuildError as error:
        raise SeqtuneError(f"{choice.configuration.kernel} {choice.configuration.brief()} does not build on "
                           f"{caller.device.name}: {error}") from None
    if layer.problem.type == "gemm":
        return tuned_product(call, layer.shape)
    return tuned_convolution(caller, call, layer.problem)


def _kept(layer: Layer) -> nn.Module:
    """PyTorch's operation in its faster way; as users call it where it cannot be packed."""
    kind: Any = KeptProduct if layer.problem.type == "gemm" else KeptConvolution
    plain = kind(layer.problem, layer.weights, layer.bias, packed=False)
    try:
        packed = kind(layer.problem, layer.weights, layer.bias, packed=True)
        x = _operand(layer)
        if difference([plain(x)], [packed(x)]) < TOLERANCE:
            times = _beside({"plain": lambda: plain(x), "packed": lambda: packed(x)})
            return packed if times["packed"] < times["plain"] else plain  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # a PyTorch without oneDNN, or a shape that oneDNN does not pack
        pass
    return plain  # type: ignore[no-any-return]


def _operand(layer: Layer) -> Tensor:
    shape = layer.input.meta["val"].shape
    x = torch.randn(tuple(shape), generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=LAST) if x.dim() == 4 else x


def _duel(layer: Layer, choice: Choice, caller: Caller) -> Choice:
    """The choice with its time beside PyTorch's; PyTorch's operation where that is not slower."""
    ours, theirs, x = module_of(layer, choice, caller), _kept(layer), _operand(layer)
    with torch.no_grad():
        times = _beside({"ours": lambda: ours(x), "theirs": lambda: theirs(x)})
    won = times["ours"] < times["theirs"]
    return replace(choice, configuration=choice.configuration if won else None, seconds=times["ours"],
                   pytorch_seconds=times["theirs"])


def _beside(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds of each, in interleaved rounds after a warm-up."""
    calls = {name: sample(run, SAMPLE_SECONDS, 1)[1] for name, run in runs.items()}  # type: ignore[arg-type]
    least = dict.fromkeys(runs, math.inf)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            one, calls[name] = sample(run, SAMPLE_SECONDS, calls[name])  # type: ignore[arg-type]
            least[name] = min(least[name], one)
    return least


def difference(expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The largest max|difference| / max|reference|; infinite where shapes or counts differ."""
    if [one.shape for one in expected] != [one.shape for one in found]:
        return math.inf
    worst = 0.0
    for reference, one in zip(expected, found, strict=True):
        if reference.numel():
            error = (one.double() - reference.double()).abs().max() / reference.double().abs().max().clamp(min=1e-30)
            worst = max(worst, float(error)) if not torch.isnan(error) else math.nan
    return worst
