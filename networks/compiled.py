"""Compiled: an exported graph with kernels in it, in place of a module.

The weights are packed into the kernels. After a change of a parameter or buffer in place, or while another one stands
in its place, the original computes, at its speed, with a warning. Changes in place that PyTorch does not count (through
`.data` or NumPy, by fused optimisers) are missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from seqtune.errors import warned

from .capture.examples import clones, difference, tensors_of
from .capture.overlap import share_memory
from .capture.shared_weights import PLAIN, WatchedHooks, WatchedWeights
from .compiler import CompiledGraph
from .module import ResultStrides, with_strides
from .nodes import Shape
from .program.device_threads import TURN


class Compiled(nn.Module):
    """An exported graph with kernels in it, and the module that it was exported from for inputs of other shapes."""

    def __init__(self, original: nn.Module, weights: WatchedWeights, compiled: CompiledGraph,
                 examples: Sequence[Tensor], unflatten: Callable[[Any], Any]) -> None:
        super().__init__()
        self.original = original
        self.graph = compiled.graph
        self.fallbacks = compiled.fallbacks  # (operation that PyTorch computes, reason)
        self.verdict = compiled.verdict  # None where the graph was not compared with PyTorch's forms of it
        self._forms = [(example.shape, example.dtype, "cpu", torch.strided) for example in examples]
        self._written = compiled.written
        self._tolerance = 2 * compiled.tolerance  # relative to the largest result: both sides may round
        self._strides = tuple(example.stride() for example in examples)
        self.formats = ResultStrides()  # results for inputs in other memory formats
        self._unflatten = unflatten
        self._weights = weights
        self._hooks = WatchedHooks(original)

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
        change of its weights or of its layers' hooks, calls with other weights, and other strides once, or always where
        results depend on them.
        """
        if kwargs or len(args) != len(self._forms) or torch._C._get_tracing_state() is not None \
                or torch._C._functorch.peek_interpreter_stack() is not None:  # vmap, grad and others
            return self.original(*args, **kwargs)
        if self._weights.were_replaced():
            warned("weights of an optimised model were replaced, which its kernels do not see; the original computes "
                   "with the new ones, at its speed")
            return self.original(*args, **kwargs)
        if self._weights.were_written():
            warned("the weights of an optimised model were changed; the original computes in its place, at its speed. "
                   "Optimise the changed model again")
            return self.original(*args, **kwargs)
        if self._hooks.differ():
            warned("hooks of an optimised model's layers were registered or removed, which its kernels do not call; "
                   "the original computes with them, at its speed")
            return self.original(*args, **kwargs)
        for given, known in zip(args, self._forms, strict=True):
            if type(given) not in PLAIN or (given.shape, given.dtype, given.device.type, given.layout) != known:
                return self.original(*args)
        if self._written and share_memory((*args, *self._weights.tensors), self._written):
            return self.original(*args)  # what it writes changes what it reads later
        strides = tuple(x.stride() for x in args)
        if self.formats.are_refused(strides):
            with torch.no_grad():
                return self.original(*args)
        with TURN, torch.no_grad():
            if strides == self._strides:
                return self._unflatten(self.graph(*args))
            wanted = self.formats.find(strides)
            if wanted is not None:
                return self._unflatten(with_strides(self.graph(*args), wanted))
            return self._compare(args, strides)

    def _compare(self, args: tuple[Tensor, ...], strides: tuple[Shape, ...]) -> Any:
        """Return the original's result, and decide what computes operands of these strides from now on.

        The graph does if its result is the same. The original does if its result depends on the strides, that is,
        differs for copies in the example's strides. Where only the graph's result differs, as with results that are
        mere rounding errors, the next call decides.
        """
        before = clones(args) if self._written else args
        result = self.original(*args)
        expected = tensors_of(result)
        ours = tensors_of(self.graph(*(clones(before) if self._written else before)))
        if difference(expected, ours) < self._tolerance:
            self.formats.learn(strides, pytree.tree_leaves(result))
        elif all(bool(tensor.isfinite().all()) for tensor in expected) and difference(
                expected, tensors_of(self.original(*with_strides(before, self._strides)))) >= self._tolerance:
            self.formats.refuse(strides)
            warned("the results of an optimised model depend on the strides of its operands; the original computes "
                   "operands of these strides, at its speed")
        return result
