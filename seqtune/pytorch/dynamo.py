"""The backend of torch.compile: `torch.compile(model, backend="seqtune", options={...})`, with no import.

PyTorch finds it by the entry point `torch_dynamo_backends`. Dynamo hands over a graph whose parameters are operands;
the graph is exported for each shape that it is called with, and its programs are kept. Parameters are packed into the
programs; a parameter that was changed or replaced is packed again at the next call.

Graphs that need gradients, and graphs without a layer for our kernels, go to the backend `fallback`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, fx

from seqtune.tuner.measuring.budget import SECONDS

from ..errors import MisuseError, SeqtuneError, one_line
from ..inputs import check_positive, warned
from .compilation import compile_graph
from .device_threads import binder_for_threads
from .network.nodes import Tuned
from .saved_choices import Choice
from .selection import choose

FALLBACKS = ("inductor", "eager")
MOST_SHAPES = 64  # programs of one graph that are kept; the one that was not used for the longest time goes first
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of torch.compile. `verify` and `seconds` are those of `optimize`."""

    verify: bool = True
    seconds: float = SECONDS
    checkpoint: str = "default"
    journal: str | None = None
    fallback: str = "inductor"

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> BackendOptions:
        """Check the options. Raises MisuseError."""
        given = dict(options or {})
        names = [field.name for field in fields(cls)]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise MisuseError(f"the backend seqtune has no option {unknown[0]!r:.40}; its options are "
                              f"{', '.join(names)}")
        made = cls(**given)
        check_positive("seconds", made.seconds)
        if made.fallback not in FALLBACKS:
            raise MisuseError(f"fallback={made.fallback!r:.40} is not one of {', '.join(FALLBACKS)}")
        return made


def backend(module: fx.GraphModule, example_inputs: Values, *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:
    """Compile a graph of Dynamo. Raises MisuseError for an unknown option or mode."""
    if mode not in (None, "default"):
        raise MisuseError(f"the backend seqtune has no mode {mode!r:.40}; give options instead")
    given = BackendOptions.of(options)
    if torch.is_grad_enabled() and any(isinstance(value, Tensor) and value.requires_grad for value in example_inputs):
        return _fallback(module, example_inputs, given, "")
    return ShapedPrograms(module, example_inputs, given)


def _fallback(module: fx.GraphModule, example_inputs: Values, options: BackendOptions,
              reason: str) -> Callable[..., Any]:
    if reason:
        warned(f"torch.compile(backend=\"seqtune\"): {reason}; {options.fallback} computes this graph")
    if options.fallback == "eager":
        return module.forward
    from torch._inductor.compile_fx import compile_fx

    compiled: Any = compile_fx(module, list(example_inputs))
    return compiled  # type: ignore[no-any-return]


class ShapedPrograms:
    """The compiled forms of one graph, by the shapes of its operands. Calls from several threads take turns."""

    def __init__(self, module: fx.GraphModule, example_inputs: Values, options: BackendOptions) -> None:
        self.module, self.options = module, options
        self.weights = [index for index, value in enumerate(example_inputs) if _is_weight(value)]
        self.operands = [index for index in range(len(example_inputs)) if index not in set(self.weights)]
        self._known: dict[Any, tuple[Callable[..., Any], list[tuple[int, int]]]] = {}
        self._choices: dict[Any, Choice] = {}

    def __call__(self, *values: Any) -> Any:
        """Run the program for these shapes; compile it first if there is none, or if a weight was changed."""
        with _TURN, torch.no_grad():
            key = tuple(_form(values[index]) for index in self.operands)
            weights = [values[index] for index in self.weights]
            versions = [(weight.data_ptr(), weight._version) for weight in weights]
            known = self._known.get(key)
            if known is None or known[1] != versions:
                known = self._known[key] = (self._compile(values), versions)
                while len(self._known) > MOST_SHAPES:
                    del self._known[next(iter(self._known))]
            return known[0](*(values[index] for index in self.operands))

    def _compile(self, values: Values) -> Callable[..., Any]:
        frozen = _with_constants(self.module, {index: values[index] for index in self.weights})
        examples = tuple(values[index] for index in self.operands)
        try:
            program = torch.export.export(frozen, examples)
            compiled = compile_graph(program, binder_for_threads(torch.get_num_threads()), self._choose)
        except SeqtuneError:
            raise
        except Exception as error:  # many kinds of code cannot be exported
            return self._left(values, f"it cannot be exported: {one_line(error, 200)}")
        if compiled is None:
            return self._left(values, "it has no convolution and no linear layer that our kernels compute")
        return compiled.graph

    def _left(self, values: Values, reason: str) -> Callable[..., Any]:
        whole = _fallback(self.module, values, self.options, reason)
        weights = {index: values[index] for index in self.weights}

        def run(*operands: Any) -> Any:
            given = dict(zip(self.operands, operands, strict=True)) | weights
            return whole(*(given[index] for index in range(len(given))))

        return run

    def _choose(self, layers: Sequence[Tuned]) -> list[Choice]:
        new = [layer for layer in layers if layer.problem not in self._choices]
        options = self.options
        chosen = choose(new, binder_for_threads(torch.get_num_threads()), verify=options.verify,
                        seconds=options.seconds, checkpoint=options.checkpoint, journal=options.journal,
                        progress=lambda line: None)
        self._choices |= {layer.problem: choice for layer, choice in zip(new, chosen, strict=True)}
        return [self._choices[layer.problem] for layer in layers]


_TURN = threading.RLock()  # programs share a workspace


def _is_weight(value: Any) -> bool:
    """Whether an operand of Dynamo's graph is a parameter or a buffer of the model."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _form(value: Any) -> Any:
    return (value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else value


def _with_constants(module: fx.GraphModule, values: Mapping[int, Tensor]) -> fx.GraphModule:
    """The graph with some operands as buffers of its own."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    root = fx.GraphModule(module, module.graph)
    index = 0
    for node in module.graph.nodes:
        if node.op == "placeholder" and index in values:
            name = f"seqtune_weight_{index}"
            root.register_buffer(name, values[index].detach())
            copies[node] = graph.get_attr(name)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        index += node.op == "placeholder"
    return fx.GraphModule(root, graph)
