"""For PyTorch: `optimize(model, example_input)` puts tuned kernels into a copy of an eval-mode CPU model.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model.eval(), torch.randn(1, 3, 224, 224))  # doctest: +SKIP
    >>> fast.save("choice.json")  # doctest: +SKIP

The model is exported to a graph (torch.export); where a whole model cannot be, those of its parts that can. Batch
normalisation is folded into the convolution before it, and a ReLU is computed with it where nothing else reads its
input. The graph runs in channels_last throughout, whose memory the kernels read and write as it is. Each convolution
and linear layer is predicted, verified against the safe default, and measured beside PyTorch's own operation on equal
terms (channels_last, weights packed before): PyTorch's is kept where ours does not win.

Only inputs of the example's shape are computed so; others go through the copied original, as slowly as before. The
kernels run on the OpenMP threads that PyTorch has; calls from several threads take turns.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.fx.graph import CodeGen
from torch.utils import _pytree as pytree

from seqtune.api import predict
from seqtune.chain import link
from seqtune.choices import Choice, choices_of, read_choices, write_choices
from seqtune.errors import FormatError, MisuseError, SeqtuneError
from seqtune.graph import Layer, constants_of, find_layers, replace_glue, replace_layer
from seqtune.inputs import Say, as_device, check_positive, silent
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import kernels_for
from seqtune.kernels.problem import Problem
from seqtune.layers import LAST, KeptConvolution, KeptProduct, tuned_convolution, tuned_product
from seqtune.predictor.budget import SECONDS
from seqtune.tuner.call import Caller, Team
from seqtune.tuner.llvm_compiler import Compiler
from seqtune.tuner.llvm_openmp import OpenMP, loaded_runtime
from seqtune.tuner.llvm_threads import Threads
from seqtune.tuner.measure import sample

TOLERANCE = 1e-3  # of max|difference| / max|reference| of each of the model's results
ROUNDS = 11  # of ours beside PyTorch's, a sample each
SAMPLE_SECONDS = 5e-4


class Optimized(nn.Module):
    """A model with tuned kernels in it; made by `optimize`. `choices` says what was chosen for each layer."""

    def __init__(self, model: nn.Module, device: Device, choices: Sequence[Choice], error: float) -> None:
        super().__init__()
        self.model = model
        self.device = device
        self.choices = tuple(choices)
        self.error = error  # max|difference| / max|reference| on the example

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        return self.model(*args, **kwargs)

    def save(self, path: str | Path) -> None:
        """Keep the choice, without the weights, for `optimize(..., saved=path)`."""
        write_choices(Path(path), self.device, self.choices)

    def train(self, mode: bool = True) -> Optimized:
        """Only for evaluation."""
        if mode:
            raise MisuseError("an optimised model does not train; train the original and optimise it again")
        return super().train(False)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise MisuseError("an optimised model stays on the CPU in fp32; convert the original and optimise it again")

    def __deepcopy__(self, memo: object) -> Any:
        raise MisuseError("an optimised model cannot be copied; save() the choice and optimise the original with it")

    def __reduce__(self) -> Any:
        raise MisuseError("an optimised model cannot be pickled; save() the choice and optimise the original with it")


class Compiled(nn.Module):
    """An exported graph with kernels in it, and the module that it was exported from for inputs of other shapes."""

    def __init__(self, original: nn.Module, graph: GraphModule, examples: Sequence[Tensor],
                 unflatten: Callable[[Any], Any]) -> None:
        super().__init__()
        self.original = original
        self.graph = graph
        self._shapes = [(example.shape, example.dtype) for example in examples]
        self._unflatten = unflatten

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the original returns."""
        if kwargs or len(args) != len(self._shapes):
            return self.original(*args, **kwargs)
        for given, (shape, dtype) in zip(args, self._shapes, strict=True):
            if not isinstance(given, Tensor) or given.shape != shape or given.dtype != dtype or given.is_cuda:
                return self.original(*args, **kwargs)
        with _TURN, torch.no_grad():
            return self._unflatten(self.graph(*args))


_TURN = threading.RLock()  # the kernels share their workspace, and their jobs


def optimize(model: nn.Module, example_input: Tensor | Sequence[Tensor], *, device: Device | str = "llvm:0",
             verify: bool = True, seconds: float = SECONDS, checkpoint: str | Path = "default",
             journal: str | Path | None = None, saved: str | Path | None = None,
             progress: Say = silent) -> Optimized:
    """A copy of an eval-mode CPU model that computes faster what it computes on inputs of the example's shape.

    `seconds` is the time that verifying one layer may take; verdicts are kept in the journal, so that a second time is
    quick. `saved` is what `Optimized.save` wrote: nothing is predicted or measured then. Without `verify` the first
    prediction of every layer is taken as it is. Raises MisuseError on what cannot be optimised, SeqtuneError where the
    results differ from the model's by more than TOLERANCE.
    """
    examples = (example_input,) if isinstance(example_input, Tensor) else tuple(example_input)
    check_positive("seconds", seconds)
    _check(model, examples)
    place = as_device(device)
    caller = caller_of(place)
    choices = read_choices(Path(saved), place) if saved is not None else None
    original = copy.deepcopy(model)
    with torch.no_grad():
        expected = _tensors(original(*examples))

    def choose(layers: Sequence[Layer]) -> list[Choice]:
        if choices is not None:
            return choices_of(choices, [layer.problem for layer in layers], str(saved))
        return _choose(layers, caller, verify, seconds, checkpoint, journal, progress)

    made: list[Choice] = []
    result = _compile_parts(original, examples, caller, choose, made)
    if not made:
        raise MisuseError(f"no layer of this {type(model).__name__} can be optimised: it has no convolution or linear "
                          "layer with constant fp32 weights that torch.export finds")
    if choices is not None and len(made) != len(choices):
        raise FormatError(f"{saved} was saved for another model: it has {len(choices)} layers, this one {len(made)}")
    with torch.no_grad():
        error = _difference(expected, _tensors(result(*examples)))
    if not error < TOLERANCE:
        raise SeqtuneError(f"the optimised model's results differ by {error:.1e} of the largest; {TOLERANCE:.0e} is "
                           "allowed")
    return Optimized(result, place, made, error).eval()


def _check(model: object, examples: Sequence[object]) -> None:
    if not isinstance(model, nn.Module):
        raise MisuseError(f"a {type(model).__name__} is no torch.nn.Module")
    if isinstance(model, Optimized):
        raise MisuseError("this model is optimised already")
    if any(module.training for module in model.modules()):
        raise MisuseError("the model is in training mode; call .eval() first")
    if not examples or not all(isinstance(example, Tensor) for example in examples):
        raise MisuseError("the example input must be a tensor, or a tuple of the tensors that the model is called with")
    for what, tensors in (("model", [*model.parameters(), *model.buffers()]), ("example input", examples)):
        for tensor in tensors:
            assert isinstance(tensor, Tensor)
            if tensor.device.type != "cpu":
                raise MisuseError(f"the {what} is on {tensor.device}; only CPU models are optimised")
            if tensor.is_floating_point() and tensor.dtype != torch.float32:
                raise MisuseError(f"the {what} is of {tensor.dtype}; only torch.float32 is optimised")


@lru_cache(maxsize=4)
def caller_of(device: Device) -> Caller:
    """One per device and process: all models share threads and workspace."""
    if device.backend != "llvm":
        raise MisuseError(f"{device.name} does not compute in PyTorch's memory; choose an llvm device")
    compiler = Compiler(device.instruction_set)
    runtime = loaded_runtime(Path(torch.__file__).parent)
    team: Team = Threads(compiler, device.threads) if runtime is None else OpenMP(compiler, device.threads, runtime)
    return Caller(device, compiler, team)


def _compile_parts(module: nn.Module, examples: Sequence[Tensor], caller: Caller,
                   choose: Callable[[Sequence[Layer]], list[Choice]], made: list[Choice]) -> nn.Module:
    """The module compiled, or else itself with those of its children compiled that can be; choices go to `made`."""
    if next(module.parameters(), None) is None:
        return module
    try:
        with torch.no_grad():
            program = torch.export.export(module, tuple(examples))
    except Exception:  # whatever its code does that cannot be exported; there are many kinds
        if not list(module.children()):
            return module
        inputs = _inputs_of_children(module, examples)
        for name, child in list(module.named_children()):
            if inputs.get(name):
                setattr(module, name, _compile_parts(child, inputs[name], caller, choose, made))
        return module
    graph = _plain(program.module(check_guards=False))
    layers = find_layers(graph)
    if not layers:
        return module
    choices = choose(layers)
    made.extend(choices)
    for layer, choice in zip(layers, choices, strict=True):
        replace_layer(graph, layer, _module(layer, choice, caller))
    replace_glue(graph, caller)
    link(graph, caller)
    for node in list(constants_of(graph)):
        graph.graph.erase_node(node)
    graph.recompile()
    graph.delete_all_unused_submodules()
    spec = program.call_spec.out_spec
    assert spec is not None
    return Compiled(module, graph, examples, lambda flat: pytree.tree_unflatten(flat, spec))


def _plain(module: GraphModule) -> GraphModule:
    """The graph on tensors alone: without the wrapping and checking of inputs and outputs."""
    module.graph.set_codegen(CodeGen())
    return GraphModule(module, module.graph)


def _inputs_of_children(module: nn.Module, examples: Sequence[Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """What each child is called with, where that is tensors of the same shapes each time; else ()."""
    found: dict[str, tuple[Tensor, ...]] = {}
    handles = []
    for name, child in module.named_children():
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str = name) -> None:
            usable = not kwargs and all(isinstance(one, Tensor) for one in args)
            same = [one.shape for one in found.get(name, args)] == [one.shape for one in args] if usable else False
            found[name] = tuple(one.clone() for one in args) if same else ()

        handles.append(child.register_forward_pre_hook(hook, with_kwargs=True))
    try:
        with torch.no_grad():
            module(*examples)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _module(layer: Layer, choice: Choice, caller: Caller) -> nn.Module:
    """What computes a layer as chosen."""
    if choice.configuration is None:
        return _kept(layer)
    bias = None if layer.bias is None else layer.bias.numpy()
    call = caller.bind(layer.problem, choice.configuration, layer.weights.contiguous().numpy(), bias)
    if layer.problem.type == "gemm":
        return tuned_product(call, layer.shape)
    return tuned_convolution(caller, call, layer.problem)


def _kept(layer: Layer) -> nn.Module:
    """PyTorch's operation in its faster way."""
    kind: Any = KeptProduct if layer.problem.type == "gemm" else KeptConvolution
    plain = kind(layer.problem, layer.weights, layer.bias, packed=False)
    try:
        packed = kind(layer.problem, layer.weights, layer.bias, packed=True)
        x = _operand(layer)
        if _difference([plain(x)], [packed(x)]) < TOLERANCE:
            times = _beside({"plain": lambda: plain(x), "packed": lambda: packed(x)})
            return packed if times["packed"] < times["plain"] else plain  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # a PyTorch without oneDNN
        pass
    return plain  # type: ignore[no-any-return]


def _operand(layer: Layer) -> Tensor:
    shape = layer.input.meta["val"].shape
    x = torch.randn(tuple(shape), generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=LAST) if x.dim() == 4 else x


def _choose(layers: Sequence[Layer], caller: Caller, verify: bool, seconds: float, checkpoint: str | Path,
            journal: str | Path | None, progress: Say) -> list[Choice]:
    """Predicts each distinct problem, and measures the winner beside PyTorch's operation."""
    known: dict[Problem, Choice] = {}
    distinct = dict.fromkeys(layer.problem for layer in layers)
    for layer in layers:
        problem = layer.problem
        if problem in known:
            continue
        progress(f"layer {len(known) + 1}/{len(distinct)}: {problem.brief()}")
        if not kernels_for(problem, caller.device):
            known[problem] = Choice(problem, None)
            continue
        found = predict(problem, caller.device, verify=verify, seconds=seconds, checkpoint=checkpoint, journal=journal)
        choice = Choice(problem, found.configuration)
        known[problem] = _duel(layer, choice, caller) if verify else choice
    return [known[layer.problem] for layer in layers]


def _duel(layer: Layer, choice: Choice, caller: Caller) -> Choice:
    """The choice with its time beside PyTorch's; PyTorch's operation where that is not slower."""
    ours, theirs, x = _module(layer, choice, caller), _kept(layer), _operand(layer)
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


def _tensors(found: Any) -> list[Tensor]:
    return [leaf.clone() for leaf in pytree.tree_leaves(found) if isinstance(leaf, Tensor)]


def _difference(expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The largest max|difference| / max|reference|; infinite where shapes or counts differ."""
    if [one.shape for one in expected] != [one.shape for one in found]:
        return math.inf
    worst = 0.0
    for reference, one in zip(expected, found, strict=True):
        if reference.numel():
            error = (one.double() - reference.double()).abs().max() / reference.double().abs().max().clamp(min=1e-30)
            worst = max(worst, float(error)) if not torch.isnan(error) else math.nan
    return worst
