"""optimize: makes a copy of an eval-mode CPU model with tuned kernels in it.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model.eval(), torch.randn(1, 3, 224, 224))  # doctest: +SKIP
    >>> fast.save("choice.json")  # doctest: +SKIP

The model is exported to a graph (torch.export), and the graph becomes programs of tuned kernels and generated steps
(`networks/compilation.py`). Where a whole model cannot be exported, its parts are tried. Each convolution, linear layer
and attention is predicted. Within a time budget, those that may gain are verified and measured beside PyTorch's own
operation on equal terms (channels_last, weights packed before); the network with the winners is measured beside the
predicted one, and the faster beside PyTorch's code for it. PyTorch's code is used where it is clearly faster. Results
have the memory format of the original's.

The weights are packed into the kernels. After a change of a parameter or buffer in place, the copy of the original
computes, at its speed, with a warning; changes that PyTorch does not count (through `.data` or NumPy, by fused
optimisers) stay unseen. The model that was given is not changed, and changes of it do not matter.

The kernels serve inputs of the example's shape only; other inputs go through a copy of the original at its speed. The
kernels run on PyTorch's OpenMP threads; calls from several threads take turns. NaNs are propagated as PyTorch does,
but a Winograd convolution spreads them over a tile, and a ReLU that oneDNN fuses turns them into 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path
from seqtune.networks.capture.examples import (
    check_model,
    checked_examples,
    clones,
    difference,
    reference_of,
    tensors_of,
)
from seqtune.networks.capture.shared_weights import OwnCopy, kept_buffers
from seqtune.networks.compilation import compile_graph
from seqtune.networks.compiled import Compiled
from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.nodes import Tuned
from seqtune.networks.optimized import Optimized
from seqtune.networks.parts import compile_parts
from seqtune.networks.plan.precision import TOLERANCES, checked_precision, has_bf16
from seqtune.networks.program.device_threads import binder_of, device_of_pytorch, one_at_a_time
from seqtune.networks.selection.choices import Choice, SavedChoices, choices_of
from seqtune.networks.selection.layer_predictor import LayerPredictor
from seqtune.networks.selection.reports import INDUCTOR
from seqtune.networks.selection.selection import LayerSelection
from seqtune.networks.verification.peer_comparison import PeerComparison, saved_comparison
from seqtune.networks.verification.peer_graph import check_compared
from seqtune.networks.verification.verifier import NetworkVerifier
from seqtune.predictor.say import Say, silent
from seqtune.tuner.measuring.deadline import NETWORK, SECONDS, Deadline
from seqtune.tuner.measuring.stopwatch import Stopwatch

from ...api.inputs import as_device, check_flag, check_own_journal, check_positive
from ...errors import FormatError, MisuseError, SeqtuneError, shown, warned

BUSY = 5.0  # times PyTorch's own time; no kernel is that slow on an idle machine


@torch.inference_mode(False)  # a copy that is made in it could write its buffers nowhere else
@one_at_a_time  # an export changes PyTorch's own functions while it runs
def optimize(model: nn.Module, example_input: Tensor | Sequence[Tensor], *, device: Device | str | None = None,
             verify: bool = True, budget: float = NETWORK, seconds: float = SECONDS,
             checkpoint: str | Path | None = None, journal: str | Path | None = None,
             saved: str | Path | None = None, precision: str | None = None, compare: str = INDUCTOR,
             progress: Say = silent) -> Optimized:
    """A copy of an eval-mode CPU model with tuned kernels for inputs of the example's shape.

    `device` is an llvm device; None is that of `saved`, else the one with as many threads as PyTorch has now
    (`torch.get_num_threads`), at most one per core. A later change of PyTorch's number does not matter.
    `precision` is "fp32" or, on a device that multiplies bf16 numbers, "bf16"; None is that of the model's parameters.
    Operands and results have the model's types. `budget` is the time budget in seconds for verifying the network: what
    `verify` adds to the time of the call. It is spent on the layers that may gain the most, on each at most `seconds`.
    The network with verified layers is used unless the predicted one is faster. The faster one is compared with what
    PyTorch makes of the network in the model's types: `compare` is "inductor", whose compilation takes a minute for
    large networks and is left out if it would take more than half of the time left, or "eager". Verdicts are kept in
    the journal and beside it at once, so an interrupted call goes on, and a second call is quick. `saved` is a file
    written by `Optimized.save`; nothing is predicted or verified then. Without `verify` the first prediction of every
    layer is used unmeasured. `progress` receives one line for each step, with the seconds left, and one for each part
    that could not be optimised. Raises MisuseError for a model or input that cannot be optimised, UnavailableError for
    "bf16" on a device without it, SeqtuneError where a result differs from the model's in fp32 by more than TOLERANCES
    of its largest number.
    """
    examples = checked_examples(example_input)
    check_flag("verify", verify)
    check_positive("seconds", seconds)
    check_positive("budget", budget)
    check_path("checkpoint", checkpoint)
    check_path("saved", saved)
    check_own_journal(journal)
    check_compared(compare)
    if not callable(progress):
        raise MisuseError(f"progress={shown(progress)}; it must be a function of one line of text")
    if isinstance(model, Optimized):
        raise MisuseError("this model is optimised already")
    check_model(model, examples)
    kept = None if saved is None else SavedChoices.read(Path(saved))
    if device is not None:
        target = as_device(device)
    else:
        target = (None if kept is None else kept.device()) or device_of_pytorch()
    precision = checked_precision(precision, model.parameters(), target)
    binder = binder_of(target)
    choices, verdicts = (None, []) if kept is None else kept.on(target, precision)
    verifications = [] if kept is None else kept.verifications()
    original = OwnCopy(model)
    expected, written = reference_of(model, examples)

    allowed = TOLERANCES["bf16" if has_bf16(model.parameters()) else precision]
    selection = LayerSelection(verify, seconds, budget, LayerPredictor(checkpoint, journal, progress))
    stopwatch = Stopwatch()
    deadline, undivided = Deadline(budget, stopwatch), _size(original.model)

    def part(module: nn.Module) -> Deadline:
        """The deadline of one part: its share of the time left, among the parameters of the parts that have none."""
        nonlocal undivided
        share = min(1.0, _size(module) / undivided) if undivided > 0 else 1.0  # parts may have parameters in common
        undivided -= _size(module)
        return deadline.part(share)

    def compiled(module: nn.Module, program: ExportedProgram, inputs: Sequence[Tensor]) -> CompiledGraph | None:
        if choices is not None:
            def saved_ones(layers: Sequence[Tuned]) -> list[Choice]:
                return choices_of(choices, [layer.problem for layer in layers], str(saved))

            graph = compile_graph(program, binder, saved_ones, inputs, saved_comparison(verdicts, progress, allowed),
                                  precision)
            if graph is not None and verifications:
                graph = replace(graph, verification=verifications.pop(0))
        elif verify:
            end = part(module)
            verifier = NetworkVerifier(selection, end, stopwatch, target)
            comparison = PeerComparison(compare, selection.memory(target), progress, allowed, deadline=end)
            graph = compile_graph(program, binder, verifier.choose, inputs, comparison, precision, verifier)
        else:
            graph = compile_graph(program, binder, partial(selection.choose, device=target), inputs,
                                  precision=precision)
        taken.extend(() if graph is None else graph.choices)
        return graph

    taken: list[Choice] = []
    result = compile_parts(original, original.model, examples, compiled, progress,
                            {original.model.get_submodule(name) for name in written})
    original.wait()
    if not taken:
        raise MisuseError(f"no layer of this {type(model).__name__} can be optimised: torch.export finds, for this "
                          "input, no convolution of images or sequences and no linear layer with constant weights")
    if choices is not None and len(taken) != len(choices):
        raise FormatError(f"{saved} was saved for another model: it has {len(choices)} layers, this one {len(taken)}")
    disturbed = sum((choice.seconds or 0.0) > BUSY * (choice.pytorch_seconds or math.inf) for choice in taken)
    if disturbed:
        warned(f"{disturbed} of {len(taken)} layers took over {BUSY:.0f} times as long as PyTorch's own when they were "
               "measured: other programs were busy; optimise again when they are not")
    with torch.no_grad(), nullcontext() if isinstance(result, Compiled) else kept_buffers(result):
        error = difference(expected, tensors_of(result(*clones(examples))))
    if not error < allowed:
        finite = all(bool(tensor.isfinite().all()) for tensor in expected)
        raise SeqtuneError(f"the optimised model's results differ by {error:.1e} of the largest; {allowed:.0e} is "
                           "allowed" if finite else "the model's results for the example are not finite, and the "
                           "optimised model's are not so in the same places; take an example with finite results")
    return Optimized(result, target, taken, error, precision).eval()


def _size(module: nn.Module) -> int:
    """The number of a module's parameters, by which the parts of a network share the budget."""
    return sum(parameter.numel() for parameter in module.parameters())
