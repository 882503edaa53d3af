"""PyTorch's own samples of its operators (OpInfo), through torch.compile(backend="seqtune") against eager, in fp32.

Every sample stands in a graph with a linear layer, so that a program is made. Right, refused (with the reason) and
wrong operators are counted apart. `make test` leaves this folder out. To see what happens to single operators:
`python -m tests.peers.test_pytorch_operators NAME ...`. PyTorch's table needs the package `expecttest`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from seqtune.errors import SeqtuneWarning, one_line
from tests.peers.verdicts import Verdicts

SAMPLES = 8  # of each operator
MOST = 200  # the first ones of an operator, among which they are chosen
LEAST = 662  # operators that are right
OPTIONS: dict[str, Any] = {"verify": False, "fallback": "eager"}
ONLY_SHAPES = ("empty", "new_empty")  # parts of names of operators whose results have no defined content


@dataclass(slots=True)
class OperatorVerdicts(Verdicts):
    """The operators by their verdicts, and those that the fallback computed."""

    left: dict[str, str] = field(default_factory=dict)  # operator -> reason for falling back
    samples: int = 0


class Beside(nn.Module):
    """An operator beside a linear layer, in one graph."""

    def __init__(self, operator: Any, arguments: tuple[Any, ...], names: dict[str, Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.operator, self.names = operator, names
        self.arguments = arguments

    def forward(self, rows: Tensor, first: Any) -> Any:
        return self.operator(first, *self.arguments, **self.names), self.linear(rows)


def operators(names: Iterable[str] = ()) -> list[Any]:
    """The operators of PyTorch's table that compute fp32 numbers on CPUs, or those with these names."""
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = set(names)
    return [info for info in op_db if info.supports_dtype(torch.float32, "cpu")
            and (not wanted or info.formatted_name in wanted or info.name in wanted)]


def samples(info: Any, count: int) -> Iterator[Any]:
    """At most `count` samples of an operator, evenly from all."""
    torch.manual_seed(0)
    every = list(islice(info.sample_inputs("cpu", torch.float32, requires_grad=False), MOST))
    yield from every[::max(1, -(-len(every) // count))]


def fault(info: Any, verdicts: OperatorVerdicts, count: int) -> str:
    """The fault of the first sample that is wrong; empty if all are right. Raises what a compiled sample raises."""
    for sample in samples(info, count):
        verdicts.samples += 1
        module = Beside(info.op, sample.args, sample.kwargs).eval()
        eager_input = _copied(sample.input)
        try:
            torch.manual_seed(1)
            expected = module(torch.ones(3, 4), eager_input)
        except Exception:
            continue  # PyTorch itself refuses this sample
        given = _copied(sample.input)
        torch._dynamo.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = torch.compile(module, backend="seqtune", options=OPTIONS)
            torch.manual_seed(1)
            result = compiled(torch.ones(3, 4), given)
        name = info.formatted_name
        verdicts.left.update((name, str(warning.message)) for warning in caught
                             if issubclass(warning.category, SeqtuneWarning))
        only_shapes = any(word in name for word in ONLY_SHAPES)
        if found := _fault(expected, result, only_shapes) or _fault(eager_input, given, only_shapes):
            return f"{found}; {_described(sample)}"
    return ""


def _copied(value: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, value)


def _described(sample: Any) -> str:
    return one_line(repr(pytree.tree_map(lambda leaf: tuple(leaf.shape) if isinstance(leaf, Tensor) else leaf,
                                         (sample.input, sample.args, sample.kwargs))), 200)


def _fault(expected: Any, result: Any, only_shapes: bool) -> str:
    """The fault of a result; empty if it is right."""
    theirs, ours = pytree.tree_leaves(expected), pytree.tree_leaves(result)
    if len(theirs) != len(ours):
        return f"{len(ours)} results, not {len(theirs)}"
    for right, given in zip(theirs, ours, strict=True):
        if not isinstance(right, Tensor) or right.layout is not torch.strided:
            continue
        if (right.shape, right.dtype) != (given.shape, given.dtype):
            return f"{tuple(given.shape)} of {given.dtype}, not {tuple(right.shape)} of {right.dtype}"
        if not only_shapes and not _are_close(right, given):
            return "other numbers"
    return ""


def _are_close(right: Tensor, given: Tensor) -> bool:
    if right.is_quantized or not right.numel():
        return True
    if not (right.is_floating_point() or right.is_complex()):
        return torch.equal(right, given)
    finite = right[right.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 1.0
    return torch.allclose(right.resolve_conj(), given.resolve_conj(), 1e-3, 1e-4 * max(size, 1e-3), equal_nan=True)


def count(names: Iterable[str] = (), most: int = SAMPLES, say: Any = None) -> OperatorVerdicts:
    """Judge all operators, or those with these names."""
    verdicts = OperatorVerdicts()
    torch.set_num_threads(1)
    with torch.no_grad():
        for info in operators(names):
            name = info.formatted_name
            verdicts.judge(name, partial(fault, info, verdicts, most))
            if say is not None:
                words = (("WRONG", verdicts.wrong), ("refused", verdicts.refused), ("left", verdicts.left))
                said = [f"{word} {name}: {found[name]}" for word, found in words if name in found]
                say("\n".join(said) or f"right {name}")
    return verdicts


def test_no_operator_of_pytorch_is_computed_wrongly(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("expecttest")  # PyTorch's table needs it
    count().check(LEAST, request)


if __name__ == "__main__":
    given = sys.argv[1:]
    found = count(given, SAMPLES, lambda line: print(line, flush=True))
    print(f"{len(found.right)} right, {len(found.refused)} refused, {len(found.wrong)} wrong; {found.samples} samples")
