"""Formula: arithmetic on one element of each operand, which generated code applies to whole vectors.

Steps and the epilogues of tuned kernels take formulas. Equal formulas share compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError

from .operations import OPERATIONS
from .vectors import Vectors
from .writer import Writer

MOST_LINES = 200  # lines of one formula: longer ones spill registers, and their text grows without a benefit
_UNROLLED_POWER = 16  # integer powers up to this are products


@dataclass(frozen=True, eq=False, slots=True)
class Formula:
    """Lines are (operation, *arguments); the result is the last line, or operand 0 where there are no lines.

    An argument is an int, the number of a value (the operands first, then the lines), or a float, a constant.
    Raises KernelError if a line has an unknown operation or a wrong argument.
    """

    operands: int
    lines: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if self.operands < 1 or len(self.lines) > MOST_LINES:
            raise KernelError(f"a formula has at least one operand and at most {MOST_LINES} lines, not "
                              f"{self.operands} and {len(self.lines)}")
        for number, (name, *arguments) in enumerate(self.lines, self.operands):
            if name not in OPERATIONS or len(arguments) != OPERATIONS[str(name)].arguments:
                raise KernelError(f"a formula has no operation {name!r:.40} of {len(arguments)} arguments")
            if not all(isinstance(value, float) or (isinstance(value, int) and 0 <= value < number)
                       for value in arguments):
                raise KernelError(f"{name} {arguments} uses a value that is not an earlier one of the formula")

    def _key(self) -> str:
        # As tuples, ("add", 0, 1) and ("add", 0, 1.0), value 1 and the constant 1.0, would be equal.
        return f"{self.operands} {self.lines!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @classmethod
    def of(cls, operation: str, *arguments: int | float) -> Formula:
        """A formula of one line; its operands are those that the arguments name."""
        return cls(1 + max((value for value in arguments if isinstance(value, int)), default=0),
                   ((operation, *arguments),))

    @classmethod
    def of_activation(cls, name: str, *parameters: float) -> Formula:
        """An activation function of `activations.ACTIVATIONS`. Raises KernelError for an unknown name."""
        if name not in ACTIVATIONS:
            raise KernelError(f"there is no activation {name!r:.40}; choose from {', '.join(ACTIVATIONS)}")
        return cls(1, ACTIVATIONS[name](*map(float, parameters)))

    def then(self, other: Formula, operand: int = 0) -> Formula:
        """`other` with this formula's result as one of its operands.

        The operands of the composition are this formula's, then the remaining ones of `other` in their order.
        """
        operands = self.operands + other.operands - 1
        shift = other.operands - 1  # this formula's lines move behind the new operands
        lines = [_renumbered(line, [*range(self.operands), *(
            number + shift for number in range(self.operands, self.operands + len(self.lines)))])
            for line in self.lines]
        result = self.operands + shift + len(self.lines) - 1 if self.lines else 0
        remaining = iter(range(self.operands, operands))
        values = [result if number == operand else next(remaining) for number in range(other.operands)]
        values += range(operands + len(lines), operands + len(lines) + len(other.lines))
        lines += [_renumbered(line, values) for line in other.lines]
        if not other.lines and operand != 0:
            raise KernelError("a formula without lines gives its operand 0")
        return Formula(operands, tuple(lines))

    def numpy(self, *arrays: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the formula in fp64. Operands broadcast."""
        values: list[Any] = [np.asarray(array, np.float64) for array in arrays]
        assert len(values) == self.operands, f"{self.operands} operands, {len(values)} arrays"
        with np.errstate(all="ignore"):
            for name, *arguments in self.lines:
                values.append(OPERATIONS[str(name)].compute(*(
                    values[value] if isinstance(value, int) else value for value in arguments)))
        result: NDArray[np.float64] = values[-1] if self.lines else values[0]
        return result


IDENTITY = Formula(1)


def _renumbered(line: Line, numbers: Sequence[int]) -> Line:
    name, *arguments = line
    return name, *(numbers[value] if isinstance(value, int) else value for value in arguments)


def write(writer: Writer, lanes: int, formula: Formula, values: Sequence[str]) -> str:
    """Write a formula for one vector; `values` are the names of its operands' vectors. Returns the result's name.

    The module declares `writer.declarations(lanes)` and `vectors.declare_math(lanes)`.
    """
    vectors = Vectors(writer, lanes)
    names = list(values)
    assert len(names) == formula.operands
    for name, *arguments in formula.lines:
        texts = [names[value] if isinstance(value, int) else vectors.constant(float(value)) for value in arguments]
        power = arguments[-1]
        if name == "pow" and isinstance(power, float) and 0 < power <= _UNROLLED_POWER and power.is_integer():
            names.append(reduce(vectors.mul, [texts[0]] * int(power)))
        else:
            names.append(OPERATIONS[str(name)].write(vectors, *texts))
    return names[-1] if formula.lines else names[0]


Line = tuple[str | int | float, ...]  # (operation, *arguments); see `formula.Formula`


def _hardtanh(low: float = -1.0, high: float = 1.0) -> tuple[Line, ...]:
    return (("clamp", 0, low, high),)


def _hardsigmoid() -> tuple[Line, ...]:
    return ("add", 0, 3.0), ("clamp", 1, 0.0, 6.0), ("mul", 2, 1 / 6)


def _gelu_tanh() -> tuple[Line, ...]:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    scale = 2 * math.sqrt(2 / math.pi)
    return (("mul", 0, 0), ("mul", 1, 0.044715 * scale), ("add", 2, scale), ("mul", 3, 0), ("sigmoid", 4),
            ("mul", 0, 5))


def _elu(alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> tuple[Line, ...]:
    return (("min", 0, 0.0), ("mul", 1, input_scale), ("expm1", 2), ("mul", 3, alpha), ("gt", 0, 0.0),
            ("where", 5, 0, 4), ("mul", 6, scale))


def _softplus(beta: float = 1.0, threshold: float = 20.0) -> tuple[Line, ...]:
    return (("mul", 0, beta), ("gt", 1, threshold), ("min", 1, threshold), ("exp", 3), ("log1p", 4),
            ("div", 5, beta), ("where", 2, 0, 6))


def _mish() -> tuple[Line, ...]:
    """x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); the fraction is 1 in fp32 above 20."""
    return (("min", 0, 20.0), ("exp", 1), ("add", 2, 2.0), ("mul", 2, 3), ("add", 4, 2.0), ("div", 4, 5),
            ("mul", 0, 6))


ACTIVATIONS: dict[str, Callable[..., tuple[Line, ...]]] = {
    "none": lambda: (),
    "relu": lambda: (("relu", 0),),
    "relu6": lambda: _hardtanh(0.0, 6.0),
    "hardtanh": _hardtanh,
    "hardswish": lambda: (("add", 0, 3.0), ("clamp", 1, 0.0, 6.0), ("mul", 0, 2), ("mul", 3, 1 / 6)),
    "hardsigmoid": _hardsigmoid,
    "sigmoid": lambda: (("sigmoid", 0),),
    "silu": lambda: (("sigmoid", 0), ("mul", 0, 1)),
    "quick_gelu": lambda: (("mul", 0, 1.702), ("sigmoid", 1), ("mul", 0, 2)),
    "tanh": lambda: (("tanh", 0),),
    "gelu": lambda: (("mul", 0, math.sqrt(0.5)), ("erf", 1), ("add", 2, 1.0), ("mul", 0, 0.5), ("mul", 4, 3)),
    "gelu_tanh": _gelu_tanh,
    "leaky_relu": lambda slope=0.01: (("mul", 0, slope), ("gt", 0, 0.0), ("where", 2, 0, 1)),
    "elu": _elu,
    "softplus": _softplus,
    "mish": _mish,
}
