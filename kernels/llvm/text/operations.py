"""Operations of formulas: how each is written as LLVM IR for a vector, and what it computes, in NumPy.

NaNs pass through `relu`, `clamp`, `max` and `min` as in PyTorch. Comparisons give 1.0 or 0.0; any other number than 0
counts as true, a NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import vector_math
from .vectors import Vectors

Numbers = NDArray[np.floating]
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class FormulaOperation:
    """`write` takes the vectors' writer and the names of the arguments, `compute` the arguments."""

    arguments: int
    write: Callable[..., str]
    compute: Callable[..., Numbers]


def _clamp(v: Vectors, x: str, low: str, high: str) -> str:
    return v.at_most(v.at_least(x, low), high)


def _where(v: Vectors, condition: str, yes: str, no: str) -> str:
    return v.select(v.compare("une", condition, v.constant(0.0)), yes, no)


def _pow(v: Vectors, x: str, y: str) -> str:
    """|x|^y by exp and log, the sign of x for odd y, and NaN for fractions of negative numbers but -infinity."""
    one, zero = v.constant(1.0), v.constant(0.0)
    size = vector_math.exp(v, v.mul(y, vector_math.log(v, v.abs(x))))
    half = v.mul(y, v.constant(0.5))
    whole = v.compare("oeq", v.unary("floor", y), y)
    even = v.compare("oeq", v.unary("floor", half), half)
    infinite = v.compare("oeq", x, v.constant(float("-inf")))
    infinite_or_nan = v.select(infinite, size, v.constant(float("nan")))
    below = v.select(v.compare("olt", x, zero), v.select(
        even, size, v.select(whole, v.sub(zero, size), infinite_or_nan)), size)
    value = v.select(v.compare("oeq", x, one), one, below)
    return v.select(v.compare("oeq", y, zero), one, value)


def _chosen(condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    return np.asarray(np.where(condition != 0, yes, no), np.float64)


def _sigmoid(x: Numbers) -> Numbers:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _binary(instruction: str) -> Callable[..., str]:
    return lambda v, left, right: v.real(instruction, left, right)


def _comparison(relation: str, compute: Callable[..., NDArray[np.bool_]]) -> FormulaOperation:
    return FormulaOperation(
        2, lambda v, left, right: v.select(v.compare(relation, left, right), v.constant(1.0), v.constant(0.0)),
        lambda left, right: compute(left, right).astype(np.float64))


def _function(write: Callable[[Vectors, str], str], compute: Callable[..., Numbers]) -> FormulaOperation:
    return FormulaOperation(1, write, compute)


OPERATIONS: dict[str, FormulaOperation] = {
    "add": FormulaOperation(2, _binary("fadd"), np.add),
    "sub": FormulaOperation(2, _binary("fsub"), np.subtract),
    "mul": FormulaOperation(2, _binary("fmul"), np.multiply),
    "div": FormulaOperation(2, _binary("fdiv"), np.divide),
    "max": FormulaOperation(2, Vectors.max, np.maximum),
    "min": FormulaOperation(2, Vectors.min, np.minimum),
    "pow": FormulaOperation(2, _pow, np.power),
    "clamp": FormulaOperation(3, _clamp, lambda x, low, high: np.where(
        x < low, low, np.where(x > high, high, x))),
    "where": FormulaOperation(3, _where, _chosen),
    "neg": _function(lambda v, x: v.write.let(f"fneg {v.kind} {x}"), np.negative),
    "abs": _function(Vectors.abs, np.abs),
    "relu": _function(lambda v, x: v.at_least(x, v.constant(0.0)), lambda x: np.where(x < 0, 0.0, x)),
    "sqrt": _function(lambda v, x: v.unary("sqrt", x), np.sqrt),
    "rsqrt": _function(lambda v, x: v.div(v.constant(1.0), v.unary("sqrt", x)), lambda x: 1 / np.sqrt(x)),
    "reciprocal": _function(lambda v, x: v.div(v.constant(1.0), x), lambda x: 1 / x),
    "floor": _function(lambda v, x: v.unary("floor", x), np.floor),
    "exp": _function(vector_math.exp, np.exp),
    "expm1": _function(vector_math.expm1, np.expm1),
    "log": _function(vector_math.log, np.log),
    "log1p": _function(vector_math.log1p, np.log1p),
    "tanh": _function(vector_math.tanh, np.tanh),
    "erf": _function(vector_math.erf, _erf),
    "sigmoid": _function(vector_math.sigmoid, _sigmoid),
    "lt": _comparison("olt", np.less),
    "le": _comparison("ole", np.less_equal),
    "gt": _comparison("ogt", np.greater),
    "ge": _comparison("oge", np.greater_equal),
    "eq": _comparison("oeq", np.equal),
    "ne": _comparison("une", np.not_equal),
}
