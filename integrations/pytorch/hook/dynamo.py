"""The backend of torch.compile: `torch.compile(model, backend="seqtune", options={...})`, with no import.

PyTorch finds the backend by the entry point `torch_dynamo_backends`. Dynamo passes a graph whose parameters are
operands. The graph is exported for each shape of its operands; the programs of the latest shapes are kept, and share
their packed weights and their memory. When a weight was changed or replaced, the next call compiles again with the same
choices. Only the first shape of a graph is compared with PyTorch's code, which decides for all; each further shape
costs a prediction.

Graphs that need gradients, and graphs without a layer for our kernels, go to the backend `fallback`. So does, with a
warning that names the reason, everything that goes wrong while a graph is compiled or its program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import string_at
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo.convert_frame import compile_lock
from torch.export import ExportedProgram

from seqtune.api.inputs import check_flag, check_own_journal, check_positive
from seqtune.errors import CheckpointError, FormatError, MisuseError, SeqtuneError, one_line, shown, warned
from seqtune.kernels.files import check_path
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import silent
from seqtune.networks.capture.encoder_layers import write_out_encoder_layers
from seqtune.networks.capture.export import exported
from seqtune.networks.capture.overlap import share_memory
from seqtune.networks.compiler import CompiledGraph, compile_graph
from seqtune.networks.peer_comparison import OUT_OF_TIME, GraphVerdict
from seqtune.networks.peer_graph import INDUCTOR, check_compared
from seqtune.networks.plan.precision import TOLERANCES, checked_precision
from seqtune.networks.program.device_threads import TURN, device_of_pytorch
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.selection import LayerSelection
from seqtune.tuner.measuring.deadline import NETWORK, Deadline, Stopwatch

from .tools import TOOLS, Tools, warn_of_load

__all__ = ["backend"]

FALLBACKS = ("inductor", "eager")
WATCHED = 256  # bytes at the head of each buffer: running statistics of 64 channels in fp32
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum numbers of what is kept for one graph."""

    programs: int = 256  # the program that was not used for the longest time goes first
    refused: int = 8  # shapes that are tried without success before all others go to the fallback
    choices: int = 10_000  # the oldest go first


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of torch.compile. All but `fallback` are those of `optimize`."""

    verify: bool = True
    seconds: float | None = None
    checkpoint: str | Path | None = None
    journal: str | Path | None = None
    fallback: str = "inductor"
    precision: str | None = None
    compare: str = INDUCTOR
    budget: float = NETWORK

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> BackendOptions:
        """Check the options. Raises MisuseError."""
        if not isinstance(options or {}, Mapping):
            raise MisuseError(f"options={shown(options)}; they must be a dictionary")
        given = dict(options or {})
        names = [field.name for field in fields(cls)]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise MisuseError(f"the backend seqtune has no option {shown(unknown[0])}; its options are "
                              f"{', '.join(names)}")
        result = cls(**given)
        if result.seconds is not None:
            check_positive("seconds", result.seconds)
        check_positive("budget", result.budget)
        check_compared(result.compare)
        if result.fallback not in FALLBACKS:
            raise MisuseError(f"fallback={shown(result.fallback)} is not one of {', '.join(FALLBACKS)}")
        check_flag("verify", result.verify)
        check_path("checkpoint", result.checkpoint)
        check_own_journal(result.journal)
        return result


def backend(module: fx.GraphModule, example_inputs: Values, *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:
    """Compile a graph of Dynamo. Raises MisuseError for an unknown option or mode."""
    if mode not in (None, "default"):
        raise MisuseError(f"the backend seqtune has no mode {shown(mode)}; give options instead")
    given = BackendOptions.of(options)
    if torch.is_grad_enabled() and any(isinstance(value, Tensor) and value.requires_grad for value in example_inputs):
        return _fallback(module, example_inputs, given)
    return ShapedPrograms(module, example_inputs, given)


def _fallback(module: fx.GraphModule, example_inputs: Values, options: BackendOptions) -> Callable[..., Any]:
    if options.fallback == "eager":
        return module.forward
    from torch._inductor.compile_fx import compile_fx

    compiled: Any = compile_fx(module, list(example_inputs))
    return compiled  # type: ignore[no-any-return]


class ShapedPrograms:
    """The compiled forms of one graph, by the shapes of its operands. Calls from several threads take turns."""

    # Dynamo calls this object in a wrapper. While any thread exports, that notes the object's name in a dictionary of
    # all threads, and fails if the export ends meanwhile; objects of this name are left out (PyTorch 2.13).
    __name__ = "__torch_dispatch__"

    def __init__(self, module: fx.GraphModule, example_inputs: Values, options: BackendOptions,
                 limits: Limits = Limits(), tools: Tools = TOOLS) -> None:
        self.module, self.options, self.limits, self.tools = module, options, limits, tools
        self.weights = [index for index, value in enumerate(example_inputs) if _is_weight(value)]
        self.numbers = _numbers(module)
        self.operands = [index for index in range(len(example_inputs))
                         if index not in {*self.weights, *self.numbers}]
        if options.precision is not None:
            checked_precision(options.precision, (), device_of_pytorch())
        self.programs: dict[Any, CompiledGraph] = {}  # forms of the operands -> program, the latest last
        self.refused: set[Any] = set()  # forms that have no program
        self._fallback: Callable[..., Any] | None = None  # computes all values where there is no program
        self._choices: dict[tuple[str, Problem], Choice] = {}  # choices for all shapes, by the device's key
        self._compares = options.verify  # the next program: each one would take as long, so the first verdict holds
        self._verdict: GraphVerdict | None = None  # on the first program
        self._packed: list[Tensor] = []  # the programs' weights, kept so that no other tensor gets their addresses
        self._versions: list[tuple[int, int]] = []
        self._places: list[tuple[int, int]] = []  # address and bytes of the head of each buffer in `_packed`
        self._contents: list[bytes] = []  # of these places when the programs were compiled

    def __call__(self, *values: Any) -> Any:
        """Run the program for these shapes; compile it first if there is none, or if a weight was changed."""
        with torch.no_grad():
            with TURN:
                key = self._key(values)
                program = self._program(key, values)
                if program is not None:
                    operands = [values[index] for index in self.operands]
                    changes = [_version(operands[index]) for index in program.written]
                    try:
                        return program.graph(*operands)
                    except IndexError:  # an index outside a table: PyTorch's own answer, too
                        raise
                    except Exception as error:
                        if changes != [_version(operands[index]) for index in program.written]:
                            raise
                        self._refuse(key, f"its program failed: {_reason(error)}")
            assert self._fallback is not None
            return self._fallback(*values)

    def _key(self, values: Values) -> Any:
        return (torch.get_num_threads(), *(values[index].item() for index in self.numbers),
                *(_form(values[index]) for index in self.operands))

    def _program(self, key: Any, values: Values) -> CompiledGraph | None:
        """The program for the shapes of these values; None if the fallback computes them."""
        if key in self.refused or (len(self.refused) >= self.limits.refused and key not in self.programs):
            return None
        weights = [values[index] for index in self.weights]
        versions = [_version(weight) for weight in weights]
        # a forward in training mode changes running statistics, and PyTorch does not count that
        if versions != self._versions or self._contents != [string_at(*place) for place in self._places]:
            self.programs.clear()
            self._packed, self._versions = [weight.detach() for weight in weights], versions
            self._places = [(weight.data_ptr(), min(weight.nbytes, WATCHED)) for weight in weights
                            if _may_be_statistics(weight)]
            self._contents = [string_at(*place) for place in self._places]
        program = self.programs.pop(key, None)
        if program is None:
            compiled = self._compile(values)
            if isinstance(compiled, str):
                self._refuse(key, compiled)
                return None
            program = compiled
        self.programs[key] = program
        if len(self.programs) > self.limits.programs:
            del self.programs[next(iter(self.programs))]
        if program.written and share_memory([*(values[index] for index in self.operands), *weights], program.written):
            self._fall_back("an operand that it changes shares memory with another one", "such calls")
            return None
        return program

    def _refuse(self, key: Any, reason: str) -> None:
        """Let the fallback compute all calls of these shapes."""
        self.programs.pop(key, None)
        self.refused.add(key)
        self._fall_back(reason)

    def _fall_back(self, reason: str, left: str = "this graph") -> None:
        """Prepare the fallback, which computes calls without a program; Dynamo compiles it for each shape.

        The first reason is a warning, which says what is left to the fallback.
        """
        if self._fallback is None:
            name = self.options.fallback
            warned(f"torch.compile(backend=\"seqtune\"): {reason}; {name} computes {left}")
            self._fallback = self.module.forward if name == "eager" else torch.compile(self.module)

    def _compile(self, values: Values) -> CompiledGraph | str:
        """The programs for these values, or the reason why there are none: whatever goes wrong inside.

        Raises CheckpointError and FormatError for files that the options name.
        """
        weights = {index: values[index] for index in self.weights}
        examples = tuple(values[index] for index in self.operands)
        step, refused = "exported", list[str]()
        try:
            frozen = _with_constants(self.module, weights, {index: values[index].item() for index in self.numbers})
            with compile_lock:  # Dynamo's lock: an export changes PyTorch's own functions while it runs
                program = exported(frozen, examples)
            step = "compiled"
            compiled = self._compiled(program, examples, tuple(weights.values()), refused)
        except Exception as error:  # many kinds of code cannot be exported
            if isinstance(error, CheckpointError | FormatError) and (self.options.checkpoint or self.options.journal):
                raise
            return f"it cannot be {step}: {_reason(error)}"
        if compiled is None:
            return "it has no convolution and no linear layer that our kernels compute" + "".join(
                f" ({reason})" for reason in refused[:1])
        return compiled

    def _compiled(self, program: ExportedProgram, examples: Values, weights: Sequence[Tensor],
                  refused: list[str]) -> CompiledGraph | None:
        """The programs of one shape, with the choices of the earlier ones where layers are equal.

        None where there is no layer; `refused` gets the reasons then.
        """
        options, tools, device = self.options, self.tools, device_of_pytorch()
        precision = checked_precision(options.precision, weights, device)
        predictor = tools.predictor(options.checkpoint, options.journal, silent)
        selection = LayerSelection(predictor, self._choices)
        comparison = None
        if self._compares or self._verdict is not None:
            memory = selection.memory(device, budget=options.budget, seconds=options.seconds)
            stopwatch = Stopwatch(tools.clock)
            comparison = tools.comparison(options.compare, memory, silent, TOLERANCES[precision], self._verdict,
                                          Deadline(options.budget, stopwatch), stopwatch, options.seconds)
        compiled = compile_graph(program, tools.binder(device), partial(selection.choose, device=device), examples,
                                 comparison, precision, refused)
        if compiled is not None and comparison is not None:
            self._compares, self._verdict = False, compiled.verdict
            graph = "a graph of torch.compile(backend=\"seqtune\")"
            if compiled.verdict is None:
                warned(f"{graph} is used although {OUT_OF_TIME}; give more (budget, seconds)")
            if compiled.loaded:
                warn_of_load(graph)
        for oldest in list(self._choices)[:max(0, len(self._choices) - self.limits.choices)]:
            del self._choices[oldest]
        return compiled


def _reason(error: Exception) -> str:
    """The reason of a failure, in one line: errors of others than us with their type."""
    text = one_line(error, 200)
    return text if isinstance(error, SeqtuneError) else f"{type(error).__name__}: {text}"


def _is_weight(value: Any) -> bool:
    """Whether an operand of Dynamo's graph is a parameter or a buffer of the model."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _version(weight: Tensor) -> tuple[int, int]:
    """The address of a weight and the number of its changes; inference tensors do not count them."""
    return weight.data_ptr(), -1 if weight.is_inference() else weight._version


def _may_be_statistics(weight: Tensor) -> bool:
    """Whether a weight may be running statistics: a buffer of floats in the CPU's memory."""
    return (not isinstance(weight, torch.nn.Parameter) and weight.device.type == "cpu"
            and weight.is_floating_point() and weight.is_contiguous() and weight.data_ptr() != 0)


def _form(value: Any) -> Any:
    return (value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else value


def _numbers(module: fx.GraphModule) -> list[int]:
    """The operands that stand for a float of Python, such as an epsilon: Dynamo wraps them where sizes are dynamic."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [index for index, node in enumerate(placeholders)
            if node.users and all(user.op == "call_method" and user.target == "item" for user in node.users)]


def _with_constants(module: fx.GraphModule, values: Mapping[int, Tensor],
                    numbers: Mapping[int, float]) -> fx.GraphModule:
    """The graph with some operands as buffers of its own, others as numbers, and encoder layers as their parts."""
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    root = fx.GraphModule(module, module.graph)
    index = 0
    for node in module.graph.nodes:
        if node.op == "placeholder" and index in values:
            name = f"seqtune_weight_{index}"
            root.register_buffer(name, values[index].detach())
            copies[node] = graph.get_attr(name)
        elif node.op == "placeholder" and index in numbers:
            copies |= dict.fromkeys(node.users, numbers[index])
        elif node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        index += node.op == "placeholder"
    write_out_encoder_layers(graph)
    return fx.GraphModule(root, graph)
