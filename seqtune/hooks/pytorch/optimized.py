"""Optimized: a copy of an eval-mode CPU model with tuned kernels in it, made by `optimize(model, example_input)`.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model.eval(), torch.randn(1, 3, 224, 224))  # doctest: +SKIP
    >>> fast.save("choice.json")  # doctest: +SKIP

The model is exported to a graph (torch.export), and the graph becomes programs of tuned kernels and generated steps
(`compilation.py`). Where a whole model cannot be exported, its parts are tried. Each convolution, linear layer and
attention is predicted. Within a time budget, those that may gain are verified and measured beside PyTorch's own
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
from collections.abc import Callable, Sequence, Set
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from seqtune.kernels.devices.device import Device
from seqtune.networks.capture.child_inputs import inputs_of_children
from seqtune.networks.capture.examples import check_model, checked_examples, clones, reference_of, tensors_of
from seqtune.networks.capture.shared_memory import share_memory
from seqtune.networks.capture.shared_weights import PLAIN, OwnCopy, WatchedWeights, kept_buffers
from seqtune.networks.compilation import compile_graph, exported
from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.module import ResultStrides, with_strides
from seqtune.networks.nodes import Shape, Tuned
from seqtune.networks.plan.precisions import TOLERANCES, checked_precision, has_bf16
from seqtune.networks.program.device_threads import TURN, binder_of, device_of_pytorch, one_at_a_time
from seqtune.networks.selection.choices import Choice, SavedChoices, choices_of, write_choices
from seqtune.networks.selection.selection import LayerSelection, difference
from seqtune.networks.verification.peer_comparison import GraphJudge, next_judge
from seqtune.networks.verification.peer_graph import INDUCTOR, check_compared
from seqtune.networks.verification.verifier import NetworkVerifier
from seqtune.predictor.say import Say, silent
from seqtune.tuner.measuring.budget import NETWORK, SECONDS
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.stopwatch import Stopwatch

from ...errors import FormatError, MisuseError, SeqtuneError, one_line, shown
from ...inputs import as_device, check_flag, check_own_journal, check_path, check_positive, warned

BUSY = 5.0  # times PyTorch's own time; no kernel is that slow on an idle machine


class Optimized(nn.Module):
    """A model with tuned kernels in it; made by `optimize`. `choices` says what was chosen for each layer."""

    def __init__(self, model: nn.Module, device: Device, choices: Sequence[Choice], error: float,
                 precision: str = "fp32") -> None:
        super().__init__()
        self.model = model
        self.device = device
        self.choices = tuple(choices)
        self.precision = precision
        self.error = error  # max|difference| / max|reference| on the example

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        return self.model(*args, **kwargs)

    def save(self, path: str | Path) -> None:
        """Write the choices and the reports on networks, without the weights, for `optimize(..., saved=path)`."""
        compiled = [module for module in self.modules() if isinstance(module, Compiled)]
        verdicts, verifications = ([None if report is None else asdict(report) for report in reports] for reports in (
            [module.verdict for module in compiled], [module.verification for module in compiled]))
        write_choices(path, self.device, self.choices, self.precision, verdicts, verifications)

    def train(self, mode: bool = True) -> Optimized:
        """Set evaluation mode. Raises MisuseError for training mode."""
        if mode:
            raise MisuseError("an optimised model does not train; train the original and optimise it again")
        return super().train(False)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Raise MisuseError: the weights are packed into the kernels."""
        raise MisuseError("an optimised model keeps its weights; load them into the original and optimise it again")

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise MisuseError("an optimised model stays on the CPU in its precision; convert the original, optimise again")

    def __deepcopy__(self, memo: object) -> Any:
        raise MisuseError("an optimised model cannot be copied; save() the choice and optimise the original with it")

    def __reduce__(self) -> Any:
        raise MisuseError("an optimised model cannot be pickled; save() the choice and optimise the original with it")


class Compiled(nn.Module):
    """An exported graph with kernels in it, and the module that it was exported from for inputs of other shapes."""

    def __init__(self, original: nn.Module, weights: WatchedWeights, compiled: CompiledGraph,
                 examples: Sequence[Tensor], unflatten: Callable[[Any], Any]) -> None:
        super().__init__()
        self.original = original
        self.graph = compiled.graph
        self.kept = compiled.kept  # (PyTorch's operation, the reason why it stayed)
        self.verdict = compiled.verdict  # where it was compared with PyTorch's forms of the whole graph
        self.verification = compiled.verification  # where its layers were verified
        self._known = [(example.shape, example.dtype, "cpu", torch.strided) for example in examples]
        self._written = compiled.written
        self._same = 2 * compiled.tolerance  # of the largest result: both sides may round
        self._strides = tuple(example.stride() for example in examples)
        self._formats = ResultStrides()  # for inputs in other memory formats
        self._unflatten = unflatten
        self._weights = weights

    def __getattr__(self, name: str) -> Any:
        """An attribute of the original: outer modules may read a layer's weight."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "original":
                raise
            return getattr(self.original, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        The original computes other shapes, operands that are written and share memory with others, everything after a
        change of its weights, and other strides once, or always where results depend on them.
        """
        if kwargs or len(args) != len(self._known) or torch._C._get_tracing_state() is not None \
                or torch._C._functorch.peek_interpreter_stack() is not None:  # vmap, grad and others
            return self.original(*args, **kwargs)
        if self._weights.were_written():
            warned("the weights of an optimised model were changed; the original computes in its place, at its speed. "
                   "Optimise the changed model again")
            return self.original(*args, **kwargs)
        for given, known in zip(args, self._known, strict=True):
            if type(given) not in PLAIN or (given.shape, given.dtype, given.device.type, given.layout) != known:
                return self.original(*args)
        if self._written and share_memory((*args, *self._weights.tensors), self._written):
            return self.original(*args)  # what it writes changes what it reads later
        strides = tuple(x.stride() for x in args)
        if self._formats.are_refused(strides):
            with torch.no_grad():
                return self.original(*args)
        with TURN, torch.no_grad():
            if strides == self._strides:
                return self._unflatten(self.graph(*args))
            wanted = self._formats.find(strides)
            if wanted is not None:
                return self._unflatten(with_strides(self.graph(*args), wanted))
            return self._learned(args, strides)

    def _learned(self, args: tuple[Tensor, ...], strides: tuple[Shape, ...]) -> Any:
        """The original's result. From now on the graph computes operands of these strides if it computes the same.

        The original always computes them if its result for copies in the example's strides is another one. Where only
        the graph's result is another one, as with results that are mere rounding errors, the next call decides.
        """
        before = clones(args) if self._written else args
        result = self.original(*args)
        expected = tensors_of(result)
        if difference(expected, tensors_of(self.graph(*(clones(before) if self._written else before)))) < self._same:
            self._formats.learn(strides, pytree.tree_leaves(result))
        elif all(bool(tensor.isfinite().all()) for tensor in expected) and difference(
                expected, tensors_of(self.original(*with_strides(before, self._strides)))) >= self._same:
            self._formats.refuse(strides)
            warned("the results of an optimised model depend on the strides of its operands; the original computes "
                   "operands of these strides, at its speed")
        return result


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
    selection = LayerSelection(verify, seconds, budget, checkpoint, journal, progress)
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

            graph = compile_graph(program, binder, saved_ones, inputs, next_judge(verdicts, progress, allowed),
                                  precision)
            if graph is not None and verifications:
                graph = replace(graph, verification=verifications.pop(0))
        elif verify:
            end = part(module)
            verifier = NetworkVerifier(selection, end, stopwatch, target)
            judge = GraphJudge(compare, selection.memory(target), progress, allowed, deadline=end)
            graph = compile_graph(program, binder, verifier.choose, inputs, judge, precision, verifier)
        else:
            graph = compile_graph(program, binder, partial(selection.choose, device=target), inputs,
                                  precision=precision)
        taken.extend(() if graph is None else graph.choices)
        return graph

    taken: list[Choice] = []
    result = _compile_parts(original, original.model, examples, compiled, progress,
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


def _compile_parts(whole: OwnCopy, module: nn.Module, examples: Sequence[Tensor],
                   compile_program: Callable[[nn.Module, ExportedProgram, Sequence[Tensor]], CompiledGraph | None],
                   progress: Say, written: Set[nn.Module]) -> nn.Module:
    """The module, a part of the copy, compiled; or itself with its exportable children compiled.

    A module in `written` has buffers that a call of the whole model writes, and stays itself.
    """
    if next(module.parameters(), None) is None:
        return module
    weights = WatchedWeights(module)
    try:
        if module in written:
            raise ValueError("it changes its buffers, or an outer module does")
        with torch.no_grad(), kept_buffers(module):  # an export fills empty ones with fake tensors
            program = exported(module, tuple(examples))
    except Exception as error:  # many kinds of code cannot be exported
        progress(f"{type(module).__name__} cannot be exported; trying its parts: {one_line(error, 100)}")
        whole.wait()
        inputs = inputs_of_children(module, examples)
        for name, child in list(module.named_children()):
            if inputs.get(name):
                setattr(module, name, _compile_parts(whole, child, inputs[name], compile_program, progress,
                                                     written))
        return module
    whole.wait()
    compiled = compile_program(module, program, examples)
    if compiled is None:
        return module
    spec = program.call_spec.out_spec
    assert spec is not None
    return Compiled(module, weights, compiled, examples, lambda flat: pytree.tree_unflatten(flat, spec))
