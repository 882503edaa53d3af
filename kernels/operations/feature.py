"""Feature: one named property of a problem, with its default and bounds. Also the features that operations share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from seqtune.errors import ProblemError, shown

from ..expression import Expression

Value: TypeAlias = int | float | str | None  # None: unknown

LARGEST_SIZE = 1 << 20  # elements of one axis; a larger number is more likely a typing error
LARGEST_TENSOR = 1 << 60  # elements of one tensor of a problem: 64 bits count them, and the bytes of 32-bit ones


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of an operation: an integer in [low, high] or one of `numbers`, a number, or one of `choices`."""

    name: str
    meaning: str
    default: Value = None
    low: int = 1
    high: int = LARGEST_SIZE
    choices: tuple[str, ...] = ()
    number: bool = False
    required: bool = False
    numbers: tuple[int, ...] = ()  # if given, all that it may be; low and high are the least and the greatest

    def check(self, value: Value) -> Value:
        """Convert `value` to the form that a problem stores. Raises ProblemError if the feature cannot have it."""
        if value is None:
            return None
        if self.choices:
            word = value if isinstance(value, str) else shown(value)
            for choice in self.choices:
                if word.lower() == choice.lower():
                    return choice
            raise ProblemError(f"{self.name}={word:.40} is not one of {', '.join(self.choices)}")
        if self.number:
            if isinstance(value, str) or not 0 < value <= sys.float_info.max:
                raise ProblemError(f"{self.name}={_brief(value)} is not a positive number")
            return float(value)
        if isinstance(value, float) and value.is_integer():  # 64.0, as spreadsheets and data frames write whole numbers
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProblemError(f"{self.name}={_brief(value)} is not a whole number")
        if self.numbers and value not in self.numbers:
            raise ProblemError(f"{self.name}={_brief(value)} is not one of {', '.join(map(str, self.numbers))}")
        if not self.low <= value <= self.high:
            raise ProblemError(f"{self.name}={_brief(value)} is outside {self.low}..{self.high}")
        return value

    def nearest(self, size: int) -> int:
        """The whole number nearest to `size` that the feature may be."""
        return min(self.numbers, key=lambda number: abs(number - size)) if self.numbers else min(
            max(size, self.low), self.high)


def bounded(elements: Mapping[str, str]) -> tuple[tuple[Expression, str], ...]:
    """The rules that no tensor has more than LARGEST_TENSOR elements, from their expressions by the tensor's words."""
    return tuple((Expression(f"{text} <= {LARGEST_TENSOR}"), f"{tensor} would have more than 2^60 elements")
                 for tensor, text in elements.items())


def _brief(value: Value) -> str:
    return value[:40] if isinstance(value, str) else shown(value)


DTYPE = Feature("dtype", "element type", "fp32", choices=("fp32", "fp16", "bf16", "int8"))
DIRECTION = Feature("direction", "forward, backward data, backward weights", "forward",
                    choices=("forward", "backward_data", "backward_weights"))
BIAS = Feature("bias", "epilogue: add one number per output channel", "no", choices=("no", "yes"))
ACTIVATION = Feature("activation", "epilogue: applied to the result", "none", choices=("none", "relu"))
TOLERANCE = Feature("tolerance", "largest allowed max|difference| / max|reference|", 1e-4, number=True)
