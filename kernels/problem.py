"""Problem: the work to be done, as immutable, typed features.

A problem type is a table of features (name, kind, default, bounds) and the quantities derived from them.
A feature may be *unknown* (`None`): recorded and foreign data do not always say everything.
Letters follow cuDNN and MIOpen: N batch, C input channels, K output channels, H W input size, R S filter size.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from seqtune.errors import ProblemError

from .expression import Expression

Value: TypeAlias = int | float | str | None

LARGEST_SIZE = 1 << 20  # of one axis; beyond it a typing error is likelier than a problem
LARGEST_TENSOR = 1 << 31  # elements of one tensor


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a problem type: an integer in [low, high], a number, or one of `choices`."""

    name: str
    meaning: str
    default: Value = None
    low: int = 1
    high: int = LARGEST_SIZE
    choices: tuple[str, ...] = ()
    number: bool = False
    required: bool = False

    def check(self, value: Value) -> Value:
        """`value` as this feature holds it; raises ProblemError where it cannot be."""
        if value is None:
            return None
        if self.choices:
            for choice in self.choices:
                if str(value).lower() == choice.lower():
                    return choice
            raise ProblemError(f"{self.name}={value!s:.40} is not one of {', '.join(self.choices)}")
        if self.number:
            if isinstance(value, str) or not 0 < value < float("inf"):
                raise ProblemError(f"{self.name}={value!s:.40} is not a positive number")
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProblemError(f"{self.name}={value!s:.40} is not a whole number")
        if not self.low <= value <= self.high:
            raise ProblemError(f"{self.name}={value!s:.40} is outside {self.low}..{self.high}")
        return value


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A table of features, the quantities derived from them and the rules that a problem obeys."""

    name: str
    meaning: str
    features: tuple[Feature, ...]
    derived: tuple[tuple[str, Expression], ...] = ()  # of one name twice, the first whose names are all known counts
    rules: tuple[tuple[Expression, str], ...] = ()  # (condition, what a user reads when it fails)
    by_name: Mapping[str, Feature] = field(init=False, compare=False, repr=False)
    implied: frozenset[str] = field(init=False, compare=False, repr=False)  # features that others may tell

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {feature.name: feature for feature in self.features})
        object.__setattr__(self, "implied", frozenset(name for name, _ in self.derived if name in self.by_name))


@dataclass(frozen=True, slots=True)
class Problem:
    """Features of one problem, in the order of its type's table. Make one with `Problem.make`."""

    type: str
    features: tuple[tuple[str, Value], ...]

    @classmethod
    def make(cls, type_name: str, /, **given: Value) -> Problem:
        """A checked problem; features not given take their defaults. Raises ProblemError."""
        kind = problem_type(type_name)
        if kind.features:
            unknown = sorted(set(given) - set(kind.by_name))
            if unknown:
                known = " ".join(feature.name for feature in kind.features)
                raise ProblemError(f"{type_name} has no feature {unknown[0]!r:.40}; it has {known}")
            values: list[tuple[str, Value]] = []
            for feature in kind.features:
                if feature.name in given:
                    values.append((feature.name, feature.check(given[feature.name])))
                elif feature.required:
                    raise ProblemError(f"{type_name} needs {feature.name} ({feature.meaning})")
                else:
                    values.append((feature.name, feature.default))
            problem = cls(type_name, tuple(values))._without_implied(kind)
        else:  # recorded: any named features
            for name, value in given.items():
                if not name or set(name) & set("= \t\r\n") or (isinstance(value, float) and not math.isfinite(value)):
                    raise ProblemError(f"{name!r:.40}={value!r:.40} is not a name and a finite number or word")
            problem = cls(type_name, tuple(sorted(given.items())))
        names = problem.names()
        for condition, reason in kind.rules:
            if not any(names.get(name) is None for name in condition.names) and not condition(names):
                raise ProblemError(f"{type_name}: {reason} (found {problem.brief()})")
        return problem

    def _without_implied(self, kind: ProblemType) -> Problem:
        """The same, less given features that the others tell, so that one problem has one key."""
        given = {name for name, value in self.features if name in kind.implied and value is not None}
        if not given:
            return self
        told = Problem(self.type, tuple((name, None if name in given else value) for name, value in self.features))
        known = told.names()
        return Problem(self.type, tuple((name, None if name in given and known[name] == value else value)
                                        for name, value in self.features))

    def __getitem__(self, name: str) -> Value:
        for key, value in self.features:
            if key == name:
                return value
        raise KeyError(name)

    def size(self, name: str) -> int:
        """A feature or derived quantity that must be a known whole number."""
        value = _names(self).get(name)
        if not isinstance(value, int):
            raise ProblemError(f"{self.type}: {name} is unknown here, and is needed")
        return value

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return iter(self.features)

    def names(self) -> dict[str, Value]:
        """Features and derived quantities by name; what an unknown feature decides is unknown too."""
        return dict(_names(self))

    @property
    def key(self) -> str:
        """The same string for the same problem, always: `conv2d n=1 c=64 ...`, defaults left out."""
        return self.brief(skip_defaults=True)

    def brief(self, skip_defaults: bool = True) -> str:
        """One line that `parse_problem` reads back."""
        table = problem_type(self.type).by_name
        words = [self.type]
        for name, value in self.features:
            feature = table.get(name)
            if skip_defaults and feature is not None and not feature.required and value == feature.default:
                continue
            words.append(shlex.quote(f"{name}={'unknown' if value is None else value}"))
        return " ".join(words)

    def to_json(self) -> dict[str, Value]:
        """A flat JSON object: `type` and every feature."""
        return {"type": self.type, **dict(self.features)}

    @classmethod
    def from_json(cls, text: str | Mapping[str, Value]) -> Problem:
        """The inverse of `to_json`. Raises ProblemError."""
        if isinstance(text, str):
            try:
                loaded = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ProblemError(f"not JSON: {text[:60]!r} ({error})") from None
        else:
            loaded = dict(text)
        if not isinstance(loaded, dict) or not isinstance(loaded.get("type"), str):
            raise ProblemError("a problem in JSON is an object with a `type` and its features")
        kind = loaded.pop("type")
        for name, value in loaded.items():
            if not isinstance(value, int | float | str | None) or isinstance(value, bool):
                raise ProblemError(f"{name!r:.40} must be a number, a word or null")
        return cls.make(kind, **loaded)


@lru_cache(maxsize=4096)
def _names(problem: Problem) -> Mapping[str, Value]:
    values: dict[str, Value] = dict(problem.features)
    for name, expression in problem_type(problem.type).derived:
        if values.get(name) is not None:  # given, or derived in another way
            continue
        unknown = any(values.get(used) is None for used in expression.names)
        values[name] = None if unknown else expression(values)
    return values


DTYPES = ("fp32", "fp16", "bf16", "int8")
ACTIVATIONS = ("none", "relu")


def _expression(text: str) -> Expression:
    return Expression(text)


# Features that several types share.
_DTYPE = Feature("dtype", "element type", "fp32", choices=DTYPES)
_DIRECTION = Feature("direction", "forward, backward data, backward weights", "forward",
                     choices=("forward", "backward_data", "backward_weights"))
_BIAS = Feature("bias", "epilogue: add one number per output channel", "no", choices=("no", "yes"))
_ACTIVATION = Feature("activation", "epilogue: applied to the result", "none", choices=ACTIVATIONS)
_TOLERANCE = Feature("tolerance", "largest allowed max|difference| / max|reference|", 1e-4, number=True)

CONV2D = ProblemType(
    "conv2d",
    "2-D convolution",
    (
        Feature("n", "batch", 1),
        Feature("c", "input channels", required=True),
        Feature("h", "input height", required=True),
        Feature("w", "input width", required=True),
        Feature("k", "output channels", required=True),
        Feature("r", "filter height", required=True),
        Feature("s", "filter width", required=True),
        Feature("pad_h", "zero rows added above and below", 0, low=0),
        Feature("pad_w", "zero columns added left and right", 0, low=0),
        Feature("stride_h", "step between output rows", 1),
        Feature("stride_w", "step between output columns", 1),
        Feature("dilation_h", "step between filter rows", 1),
        Feature("dilation_w", "step between filter columns", 1),
        Feature("groups", "independent groups of channels", 1),
        _DTYPE,
        Feature("layout", "order of the axes in memory", "NCHW", choices=("NCHW", "NHWC")),
        _DIRECTION,
        _BIAS,
        _ACTIVATION,
        _TOLERANCE,
    ),
    derived=(
        ("out_h", _expression("(h + 2 * pad_h - dilation_h * (r - 1) - 1) // stride_h + 1")),
        ("out_w", _expression("(w + 2 * pad_w - dilation_w * (s - 1) - 1) // stride_w + 1")),
        ("c_per_group", _expression("c // groups")),
        ("k_per_group", _expression("k // groups")),
        ("pointwise", _expression(
            "1 if r == 1 and s == 1 and pad_h == 0 and pad_w == 0 and stride_h == 1 and stride_w == 1 else 0")),
        ("row_w", _expression("out_h * out_w if pointwise else out_w")),  # a 1x1 filter sees one long row
        ("rows", _expression("1 if pointwise else out_h")),
        ("flop", _expression("2 * n * k * out_h * out_w * (c // groups) * r * s")),
    ),
    rules=(
        (_expression("c % groups == 0 and k % groups == 0"), "groups must divide c and k"),
        (_expression("dilation_h * (r - 1) + 1 <= h + 2 * pad_h"), "the filter is higher than the padded input"),
        (_expression("dilation_w * (s - 1) + 1 <= w + 2 * pad_w"), "the filter is wider than the padded input"),
        (_expression(f"n * c * (h + 2 * pad_h) * (w + 2 * pad_w) <= {LARGEST_TENSOR}"), "the input is too large"),
        (_expression(f"k * (c // groups) * r * s <= {LARGEST_TENSOR}"), "the filter is too large"),
        (_expression(f"n * k * out_h * out_w <= {LARGEST_TENSOR}"), "the output is too large"),
    ),
)

GEMM = ProblemType(
    "gemm",
    "matrix product C[m,n] = A[m,k] B[k,n]",
    (
        Feature("m", "rows of A and C", required=True),
        Feature("n", "columns of B and C", required=True),
        Feature("k", "columns of A, rows of B", required=True),
        Feature("trans_a", "A is stored as (k, m)", "no", choices=("no", "yes")),
        Feature("trans_b", "B is stored as (n, k)", "no", choices=("no", "yes")),
        _DTYPE,
        Feature("bias", "epilogue: add one number per column", "no", choices=("no", "yes")),
        _ACTIVATION,
        _TOLERANCE,
    ),
    derived=(("flop", _expression("2 * m * n * k")),),
    rules=(
        (_expression(f"m * k <= {LARGEST_TENSOR}"), "A is too large"),
        (_expression(f"n * k <= {LARGEST_TENSOR}"), "B is too large"),
        (_expression(f"m * n <= {LARGEST_TENSOR}"), "C is too large"),
    ),
)

_FORWARD = "direction == 'forward'"

CONVND = ProblemType(
    "convnd",
    "2-D or 3-D convolution of which sizes may be unknown, as AMD's MIOpen records them",
    (
        Feature("n", "batch", 1),
        Feature("c", "input channels", required=True),
        Feature("d", "input depth", 1),
        Feature("h", "input height", required=True),
        Feature("w", "input width", required=True),
        Feature("k", "output channels", required=True),
        Feature("t", "filter depth", 1),
        Feature("r", "filter height", required=True),
        Feature("s", "filter width", required=True),
        Feature("pad_d", "zero planes added before and behind", 0, low=0),
        Feature("pad_h", "zero rows added above and below", 0, low=0),
        Feature("pad_w", "zero columns added left and right", 0, low=0),
        Feature("stride_d", "step between output planes", 1),
        Feature("stride_h", "step between output rows", 1),
        Feature("stride_w", "step between output columns", 1),
        Feature("dilation_d", "step between filter planes", 1),
        Feature("dilation_h", "step between filter rows", 1),
        Feature("dilation_w", "step between filter columns", 1),
        Feature("groups", "independent groups of channels", 1),
        Feature("out_d", "output depth; given where d does not tell it"),
        Feature("out_h", "output height; given where h does not tell it"),
        Feature("out_w", "output width; given where w does not tell it"),
        _DTYPE,
        Feature("layout", "order of the axes in memory", "NCHW", choices=("NCHW", "NHWC", "NCDHW", "NDHWC")),
        _DIRECTION,
        _BIAS,
    ),
    derived=(
        ("out_d", _expression("(d + 2 * pad_d - dilation_d * (t - 1) - 1) // stride_d + 1")),
        ("out_h", _expression("(h + 2 * pad_h - dilation_h * (r - 1) - 1) // stride_h + 1")),
        ("out_w", _expression("(w + 2 * pad_w - dilation_w * (s - 1) - 1) // stride_w + 1")),
        ("x_h", _expression("h")),  # the input's size, or the least that gives this output
        ("x_h", _expression("(out_h - 1) * stride_h + dilation_h * (r - 1) + 1 - 2 * pad_h")),
        ("x_w", _expression("w")),
        ("x_w", _expression("(out_w - 1) * stride_w + dilation_w * (s - 1) + 1 - 2 * pad_w")),
        ("from_c", _expression(f"c if {_FORWARD} else k")),  # the image that a kernel reads: dy when it goes backward
        ("from_h", _expression(f"x_h if {_FORWARD} else out_h")),
        ("from_w", _expression(f"x_w if {_FORWARD} else out_w")),
        ("to_c", _expression(f"k if {_FORWARD} else c")),  # the other image
        ("to_h", _expression(f"out_h if {_FORWARD} else x_h")),
        ("to_w", _expression(f"out_w if {_FORWARD} else x_w")),
        ("element_bytes", _expression("{'fp32': 4, 'fp16': 2, 'bf16': 2, 'int8': 1}[dtype]")),
        ("flop", _expression("2 * n * k * out_d * out_h * out_w * (c // groups) * t * r * s")),
    ),
    rules=(
        (_expression("c % groups == 0 and k % groups == 0"), "groups must divide c and k"),
        (_expression("out_d >= 1 and out_h >= 1 and out_w >= 1"), "the filter is larger than the padded input"),
        (_expression("x_h >= 1 and x_w >= 1"), "no input has so small an output"),
    ),
)

RECORDED = ProblemType("recorded", "any named features, for data measured elsewhere", ())

PROBLEM_TYPES: dict[str, ProblemType] = {kind.name: kind for kind in (CONV2D, CONVND, GEMM, RECORDED)}


def problem_type(name: str) -> ProblemType:
    """The problem type of that name. Raises ProblemError."""
    try:
        return PROBLEM_TYPES[name]
    except KeyError:
        raise ProblemError(f"no problem type {name!r:.40}; there are {', '.join(PROBLEM_TYPES)}") from None
