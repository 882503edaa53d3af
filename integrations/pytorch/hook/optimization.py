"""optimize: makes a copy of an eval-mode CPU model with tuned kernels in it.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model.eval(), torch.randn(1, 3, 224, 224))  # doctest: +SKIP
    >>> fast.save("choice.json")  # doctest: +SKIP

The model is exported to a graph (torch.export), and the graph becomes programs of tuned kernels and generated steps
(`networks/compiler.py`). Where a whole model cannot be exported, its parts are tried. Each convolution, linear layer
and attention has the kernel that is predicted for it. Within a time budget, the network is measured beside PyTorch's
code for it, which is used where it is clearly faster (`networks/peer_comparison.py`). Results have the memory format of
the original's.

The weights are packed into the kernels. After a change of a parameter or buffer in place, the copy of the original
computes, at its speed, with a warning; changes that PyTorch does not count (through `.data` or NumPy, by fused
optimisers) are missed. The original model is not changed, and later changes of it have no effect.

The kernels serve inputs of the example's shape only; other inputs go through a copy of the original at its speed. The
kernels run on PyTorch's OpenMP threads; calls from several threads take turns. NaNs are propagated as PyTorch does,
but a Winograd convolution spreads them over a tile, and a ReLU that oneDNN fuses turns them into 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from seqtune.api.inputs import as_device, check_flag, check_own_journal, check_positive
from seqtune.errors import MisuseError, SeqtuneError, one_line, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path
from seqtune.kernels.say import Say, silent
from seqtune.networks.capture.examples import (
    check_model,
    checked_examples,
    clones,
    difference,
    reference_of,
    tensors_of,
)
from seqtune.networks.capture.shared_weights import OwnCopy, restored_buffers
from seqtune.networks.compiled import Compiled
from seqtune.networks.compiler import CompiledGraph, compile_graph
from seqtune.networks.nodes import Shape, Tuned
from seqtune.networks.optimized import Optimized
from seqtune.networks.parts import UNCOMPILED, compile_parts, left_out
from seqtune.networks.peer_comparison import saved_comparison
from seqtune.networks.peer_graph import INDUCTOR, check_compared
from seqtune.networks.plan.precision import TOLERANCES, checked_precision, has_bf16
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.networks.program.device_threads import device_of_pytorch, one_at_a_time
from seqtune.networks.selection.choices import Choice, SavedChoices
from seqtune.networks.selection.selection import LayerSelection
from seqtune.tuner.measuring.deadline import NETWORK, Deadline, Stopwatch

from .tools import TOOLS, Tools, warn_of_load

INTERRUPTED = "optimize was stopped; what it chose so far is remembered, and the same call goes on from there"
CompilePart = Callable[[nn.Module, ExportedProgram, Sequence[Tensor]], CompiledGraph | None]


def optimize(model: nn.Module, example_input: Tensor | Sequence[Tensor], *, device: Device | str | None = None,
             verify: bool = True, budget: float = NETWORK, seconds: float | None = None,
             checkpoint: str | Path | None = None, journal: str | Path | None = None,
             saved: str | Path | None = None, precision: str | None = None, compare: str = INDUCTOR,
             progress: Say = silent) -> Optimized:
    """Make a copy of an eval-mode CPU model with tuned kernels for inputs of the example's shape.

    `device` is an llvm device. Default: that of `saved`, else the one with as many threads as PyTorch has now
    (`torch.get_num_threads`), at most one per core. A later change of PyTorch's number does not matter.
    `precision` is "fp32" or, on a device that multiplies bf16 numbers, "bf16". Default: that of the model's parameters.
    Operands and results have the model's types. Each layer has its first prediction. With `verify`, the network is
    compared with what PyTorch makes of it in the model's types, and PyTorch's form is used where it is clearly faster.
    `compare` is "inductor", whose compilation takes a minute for large networks and is left out if it would take more
    than half of the time left, or "eager". `budget` is the maximum number of seconds that this adds to the call, and
    `seconds` that of one measurement of all forms; there are at most two. Default: what the budget leaves. Where the
    time does not suffice, our programs compute, and `explain` says that they were not compared. What was chosen is kept
    beside the journal at once, so a later call continues an interrupted one, and a second call is quick. `saved` is a
    file written by `Optimized.save`; nothing is predicted or measured then. `progress` receives one line for each step,
    one for each part that could not be optimised, and one that counts the layers of these parts. A warning says if
    other work had much of the machine meanwhile. Raises MisuseError for a model or input that cannot be optimised,
    UnavailableError for "bf16" on a device without it, SeqtuneError where a result differs from the model's in fp32 by
    more than TOLERANCES of its largest number. The KeyboardInterrupt of Ctrl-C says in one line that the same call goes
    on.
    """
    try:
        return Optimizer(device, verify, budget, seconds, checkpoint, journal, saved, precision, compare,
                         progress).optimize(model, example_input)
    except KeyboardInterrupt:  # without the frames of PyTorch and of the measuring process, which tell users nothing
        raise KeyboardInterrupt(INTERRUPTED) from None
    except SeqtuneError:
        raise
    except Exception as error:  # whatever goes wrong inside
        raise MisuseError(f"this {type(model).__name__} cannot be optimised: {type(error).__name__}: "
                          f"{one_line(error, 200)}") from error


@dataclass(frozen=True, slots=True)
class Optimizer:
    """The options of the function `optimize`, and the tools that predict and compare."""

    device: Device | str | None = None
    verify: bool = True
    budget: float = NETWORK  # seconds
    seconds: float | None = None  # of one measurement; None: what the budget leaves
    checkpoint: str | Path | None = None
    journal: str | Path | None = None
    saved: str | Path | None = None
    precision: str | None = None
    compare: str = INDUCTOR
    progress: Say = silent
    tools: Tools = TOOLS

    @torch.inference_mode(False)  # a copy that is made in it could write its buffers nowhere else
    @one_at_a_time  # an export changes PyTorch's own functions while it runs
    def optimize(self, model: nn.Module, example_input: Tensor | Sequence[Tensor]) -> Optimized:
        """Check the options, the model and the example, compile the model, and check the result."""
        examples = checked_examples(example_input)
        self._check_options()
        if isinstance(model, Optimized):
            raise MisuseError("this model is optimised already")
        check_model(model, examples)
        saved = None if self.saved is None else SavedChoices.read(Path(self.saved))
        device = as_device(self.device) if self.device is not None else (
            None if saved is None else saved.device()) or device_of_pytorch()
        precision = checked_precision(self.precision, model.parameters(), device)
        tolerance = TOLERANCES["bf16" if has_bf16(model.parameters()) else precision]
        binder = self.tools.binder(device)
        shapes = [tuple(example.shape) for example in examples]
        repeating = None if saved is None else self._repeating(saved, shapes, binder, precision, tolerance)
        original = OwnCopy(model)
        expected, left_to_pytorch = reference_of(model, examples)
        refused: list[str] = []
        compile_part = repeating or self._predicting(original.model, binder, precision, tolerance, refused)
        graphs: list[CompiledGraph] = []

        def compile_program(*part: Any) -> CompiledGraph | None:
            graph = compile_part(*part)
            graphs.extend(() if graph is None else (graph,))
            return graph

        result = compile_parts(original, original.model, examples, compile_program, self.progress,
                               {original.model.get_submodule(name): why for name, why in left_to_pytorch.items()})
        original.wait()
        choices = [choice for graph in graphs for choice in graph.choices]
        if not choices:
            raise MisuseError(f"no layer of this {type(model).__name__} can be optimised: "
                              f"{_why_none(shapes, expected, refused or [*left_to_pytorch.values()])}")
        if saved is not None and len(choices) != len(saved.content["layers"]):
            raise saved.misfit(shapes, f"it has {len(saved.content['layers'])} layers, this one {len(choices)}")
        if left := left_out(result):
            self.progress(f"PyTorch computes {left}: {UNCOMPILED}")
        with torch.no_grad(), nullcontext() if isinstance(result, Compiled) else restored_buffers(result):
            error = difference(expected, tensors_of(result(*clones(examples))))
        if not error < tolerance:
            finite = all(bool(tensor.isfinite().all()) for tensor in expected)
            raise SeqtuneError(f"the optimised model's results differ by {error:.1e} of the largest; {tolerance:.0e} "
                               "is allowed" if finite else "the model's results for the example are not finite, and "
                               "the optimised model's are not so in the same places; take an example with finite "
                               "results")
        if saved is None and any(graph.loaded for graph in graphs):
            warn_of_load(f"this {type(model).__name__}")
        return Optimized(result, device, choices, error, precision, shapes).eval()

    def _check_options(self) -> None:
        check_flag("verify", self.verify)
        check_positive("budget", self.budget)
        if self.seconds is not None:
            check_positive("seconds", self.seconds)
        check_path("checkpoint", self.checkpoint)
        check_path("saved", self.saved)
        check_own_journal(self.journal)
        check_compared(self.compare)
        if not callable(self.progress):
            raise MisuseError(f"progress={shown(self.progress)}; it must be a function of one line of text")

    def _repeating(self, saved: SavedChoices, shapes: Sequence[Shape], binder: KernelBinder, precision: str,
                   tolerance: float) -> CompilePart:
        """A function that compiles each part with its saved choices, for inputs of these shapes. Raises FormatError."""
        choices, verdicts = saved.on(binder.device, precision)

        def choose(layers: Sequence[Tuned]) -> list[Choice]:
            return saved.choices_of(choices, [layer.problem for layer in layers], shapes)

        def compile_part(module: nn.Module, program: ExportedProgram, inputs: Sequence[Tensor]) -> CompiledGraph | None:
            comparison = saved_comparison(verdicts, self.progress, tolerance, self.tools.comparison)
            return compile_graph(program, binder, choose, inputs, comparison, precision)

        return compile_part

    def _predicting(self, model: nn.Module, binder: KernelBinder, precision: str, tolerance: float,
                    refused: list[str]) -> CompilePart:
        """A function that predicts and, with `verify`, compares each part, in its share of the budget.

        The parts share the seconds left by their numbers of parameters. Reasons why PyTorch computes the layers of a
        part without any of ours are appended to `refused`.
        """
        device, tools = binder.device, self.tools
        selection = LayerSelection(tools.predictor(self.checkpoint, self.journal, self.progress))
        choose = partial(selection.choose, device=device)
        stopwatch = Stopwatch(tools.clock)
        deadline, undivided = Deadline(self.budget, stopwatch), _size(model)

        def compile_part(module: nn.Module, program: ExportedProgram, inputs: Sequence[Tensor]) -> CompiledGraph | None:
            nonlocal undivided
            comparison = None
            if self.verify:
                share = min(1.0, _size(module) / undivided) if undivided > 0 else 1.0  # parts may share parameters
                undivided -= _size(module)
                memory = selection.memory(device, budget=self.budget, seconds=self.seconds)
                comparison = tools.comparison(self.compare, memory, self.progress, tolerance,
                                              deadline=deadline.part(share), stopwatch=stopwatch, seconds=self.seconds)
            return compile_graph(program, binder, choose, inputs, comparison, precision, refused)

        return compile_part


def _why_none(shapes: Sequence[Shape], expected: Sequence[Tensor], refused: Sequence[str]) -> str:
    """The reason why a model has no layer to optimise: those that are known, or its inputs and results."""
    if not expected:
        return "its result has no tensor"
    if empty := [shape for shape in shapes if 0 in shape]:
        return f"an example input has a size of 0 ({'x'.join(map(str, empty[0]))})"
    if refused:
        return "; ".join(dict.fromkeys(refused))
    return ("torch.export finds, for this input, no convolution of images or sequences and no linear layer with "
            "constant weights whose result is used")


def _size(module: nn.Module) -> int:
    """The number of a module's parameters, by which the parts of a network share the budget."""
    return sum(parameter.numel() for parameter in module.parameters())
