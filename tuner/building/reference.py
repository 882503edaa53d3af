"""Reference: text in C and in NumPy that computes what a problem's output should be, by the definition in double.

The C function computes one element, so that a check can look at all elements, or at some of a large output. The text in
NumPy is the source of the operation's own reference.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pprint import pformat
from typing import TypeAlias

from seqtune.errors import MisuseError
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

from ..measuring.timing import allowed_error
from .c_language import C_TYPES
from .chosen import filled

Axis: TypeAlias = tuple[str, str]  # the index along an axis, as text in C; the feature or quantity that is its size
Types: TypeAlias = Mapping[str, str]  # operand -> its element type

_AS_DOUBLE = {"bf16": "from_bf16", "fp16": "from_fp16"}  # functions of arrays.h
_PYTHON = """\
class Problem(dict):
    size = dict.__getitem__


PROBLEM = Problem({names})


class Operation:
{source}

def reference(operands):
    return Operation().reference(PROBLEM, operands)
"""


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """The reference of a problem as text. Operands are in the operation's order."""

    problem: Problem
    c: str  # static double NAME(void *const *arrays, int64_t place), after arrays.h; operands are the first arrays
    work: float  # multiply-adds of one element in C
    tolerance: float  # the largest error of an output, relative to the largest number of the reference

    @property
    def python(self) -> str:
        """def reference(operands): the output in float64, of arrays by name as `decoded` makes them; in NumPy."""
        return _PYTHON.format(names=pformat(self.problem.names(), width=110, compact=True, sort_dicts=False),
                              source=inspect.getsource(type(operation(self.problem.type)).reference))


def reference_text(problem: Problem, types: Mapping[str, str], name: str) -> ReferenceText:
    """The reference of a problem; in C it has this name. `types` are the element types of its operands, in their order.

    Raises MisuseError if the problem's operation has no reference in text.
    """
    if problem.type not in _BODIES or problem.names().get("direction", "forward") != "forward":
        raise MisuseError(f"{problem.type} has no reference that is written as text")
    body, work = _BODIES[problem.type](problem, types)
    operands = "".join(f"    const {C_TYPES[dtype]} *{operand} = arrays[{number}];\n"
                       for number, (operand, dtype) in enumerate(types.items()))
    result = "sum > 0 ? sum : 0" if problem.names().get("activation") == "relu" else "sum"
    c = f"static double {name}(void *const *arrays, int64_t place)\n{{\n{operands}{body}    return {result};\n}}\n"
    return ReferenceText(problem, c, work, allowed_error(problem))


def _conv2d(problem: Problem, types: Types) -> tuple[str, float]:
    order = (0, 2, 3, 1) if problem["layout"] == "NHWC" else (0, 1, 2, 3)
    x = [("image", "n"), (f"group * {problem.size('c_per_group')} + c", "c"), ("line", "h"), ("at", "w")]
    y = [("image", "n"), ("channel", "k"), ("row", "out_h"), ("column", "out_w")]
    weights = [("channel", "k"), ("c", "c_per_group"), ("r", "r"), ("s", "s")]
    return _body(problem, types, [y[axis] for axis in order], bias=[("channel", "k")], weights=weights,
                 x=[x[axis] for axis in order]), math.prod(problem.size(size) for _, size in weights[1:])


def _gemm(problem: Problem, types: Types) -> tuple[str, float]:
    x, weights = [("row", "m"), ("i", "k")], [("i", "k"), ("column", "n")]
    return _body(problem, types, [("row", "m"), ("column", "n")], bias=[("column", "n")],
                 x=x[::-1] if problem["trans_a"] == "yes" else x,
                 weights=weights[::-1] if problem["trans_b"] == "yes" else weights), problem.size("k")


def _attention(problem: Problem, types: Types) -> tuple[str, float]:
    def ordered(head: Axis, token: Axis, number: Axis) -> Sequence[Axis]:
        return [("image", "n"), *((head, token) if problem["layout"] == "heads" else (token, head)), number]

    head, query, shared, key = ("head", "heads"), ("query", "q_len"), ("shared", "kv_heads"), ("key", "kv_len")
    return _body(problem, types, ordered(head, query, ("number", "value_dim")),
                 q=ordered(head, query, ("i", "head_dim")), k=ordered(shared, key, ("i", "head_dim")),
                 v=ordered(shared, key, ("number", "value_dim")),
                 mask=[("image", "n"), key] if problem["mask"] == "keys" else [head, query, key],
                 ), 2 * problem.size("kv_len") * problem.size("head_dim")


def _body(problem: Problem, types: Types, output: Sequence[Axis], **operands: Sequence[Axis]) -> str:
    """The text of the function of a problem, whose template asks for the `indices` of an element and for `operands`.

    An operand is the double at the named indices along its axes; one that the problem does not have is 0.
    """
    indices, inner = "", math.prod(problem.size(size) for _, size in output)
    for index, size in output:
        inner //= problem.size(size)
        indices += f"    const int64_t {index} = place / {inner} % {problem.size(size)};\n"
    numbers = dict.fromkeys(operands, "0")
    for operand, dtype in types.items():
        (place, _), *further = operands[operand]
        for index, size in further:
            place = f"({place}) * {problem.size(size)} + {index}"
        numbers[operand] = f"{_AS_DOUBLE.get(dtype, '(double)')}({operand}[{place}])"
    causal = int(problem.names().get("causal") == "yes")
    words = {**problem.names(), **numbers, "causal": causal, "indices": indices}
    return filled(f"reference_{problem.type}.c", words)


_BODIES: Mapping[str, Callable[[Problem, Types], tuple[str, float]]] = {
    "conv2d": _conv2d, "gemm": _gemm, "attention": _attention}
