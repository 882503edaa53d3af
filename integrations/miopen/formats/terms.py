"""Translation between MIOpen's description of a convolution and a `convnd` problem.

MIOpen describes the pass: the input of a backward pass is the gradient of the output. A problem describes the
convolution: `c`, `h` and `w` are sizes of the forward input in every direction. MIOpen's perf-dbs contain one size
only: in a strided backward pass, several input sizes lead to it, and the size of the problem stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError, cut
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

# MIOpen's columns, in the order of its text keys.
NUMBERS_BEFORE = ("spatial_dim", "in_channels", "in_h", "in_w", "in_d", "fil_h", "fil_w", "fil_d", "out_channels",
                  "batchsize", "pad_h", "pad_w", "pad_d", "conv_stride_h", "conv_stride_w", "conv_stride_d",
                  "dilation_h", "dilation_w", "dilation_d", "bias", "group_count")
WORDS = ("layout", "data_type", "direction")
COLUMNS = (*NUMBERS_BEFORE, *WORDS)

DIRECTIONS = {"F": "forward", "B": "backward_data", "W": "backward_weights"}
DTYPES = {"FP32": "fp32", "FP16": "fp16", "BF16": "bf16", "INT8": "int8"}
_DEEP = {"NCHW": "NCDHW", "NHWC": "NDHWC", "NCDHW": "NCDHW", "NDHWC": "NDHWC"}
_FILTER = {"d": "t", "h": "r", "w": "s"}

_LONGEST_WORD = 60  # characters in a reason
_KNOWN_WORDS = (  # MIOpen's column, its words that are known here, and the reason for others
    ("data_type", DTYPES, "element types {} are not known here"),
    ("layout", _DEEP, "the layout {} is not known here"),
    ("direction", DIRECTIONS, "the direction {} is not known here"))

Numbers = NDArray[np.int64]


def true_terms(columns: Mapping[str, Numbers | Sequence[str]]) -> dict[str, list[Value]]:
    """The features of `convnd` problems from MIOpen's columns, unchecked.

    Besides COLUMNS there may be out_d, out_h and out_w, the sizes of the pass's other image. Unknown words become words
    that no feature has.
    """
    directions = list(map(str, columns["direction"]))
    forward = np.array([word == "F" for word in directions])
    deep = _numbers(columns, "spatial_dim") == 3
    source, target = _numbers(columns, "in_channels"), _numbers(columns, "out_channels")
    features: dict[str, list[Value]] = {
        "n": _numbers(columns, "batchsize").tolist(),
        "c": np.where(forward, source, target).tolist(),
        "k": np.where(forward, target, source).tolist(),
        "groups": _numbers(columns, "group_count").tolist(),
        "dtype": [DTYPES.get(str(word), f"?{word}") for word in columns["data_type"]],
        "direction": [DIRECTIONS.get(word, f"?{word}") for word in directions],
        "layout": [_DEEP.get(word, "?") if three else word for word, three in
                   zip(map(str, columns["layout"]), deep.tolist(), strict=True)],
        "bias": ["yes" if bias else "no" for bias in _numbers(columns, "bias").tolist()],
    }
    for axis in "dhw":
        flat = ~deep if axis == "d" else np.zeros(len(deep), dtype=bool)
        taps = np.where(flat, 1, _numbers(columns, f"fil_{axis}"))
        pad = np.where(flat, 0, _numbers(columns, f"pad_{axis}"))
        stride = np.where(flat, 1, _numbers(columns, f"conv_stride_{axis}"))
        dilation = np.where(flat, 1, _numbers(columns, f"dilation_{axis}"))
        read = np.where(flat, 1, _numbers(columns, f"in_{axis}"))
        everywhere = np.ones(len(deep), dtype=bool)
        if f"out_{axis}" in columns:
            other_size, is_known = np.where(flat, 1, _numbers(columns, f"out_{axis}")), everywhere
        else:  # MIOpen's own arithmetic, which rounds towards zero; without a stride, the output determines the input
            steps = np.trunc((read + 2 * pad - dilation * (taps - 1) - 1) / np.maximum(stride, 1)).astype(np.int64)
            other_size = np.where(forward, np.maximum(steps + 1, 1), read + dilation * (taps - 1) - 2 * pad)
            is_known = forward | (stride == 1)
        features[axis] = _where(forward | is_known, np.where(forward, read, other_size))
        features[f"out_{axis}"] = np.where(forward, other_size, read).tolist()
        features |= {_FILTER[axis]: taps.tolist(), f"pad_{axis}": pad.tolist(), f"stride_{axis}": stride.tolist(),
                     f"dilation_{axis}": dilation.tolist()}
    return features


def why_unknown(columns: Mapping[str, Numbers | Sequence[str]], features: Mapping[str, Sequence[Value]],
                row: int) -> str:
    """Why a row of MIOpen's columns is no problem, with the word or the size that is not known here.

    `features` are those of `true_terms`.
    """
    for name, known, reason in _KNOWN_WORDS:
        if (word := str(columns[name][row])) not in known:
            return reason.format(cut(word, _LONGEST_WORD))
    for feature in operation("convnd").features:
        try:
            feature.check(features[feature.name][row] if feature.name in features else feature.default)
        except ProblemError as error:
            return f"a problem whose {error} ({feature.meaning})"
    return "a problem whose words or sizes are not known here"


def _numbers(columns: Mapping[str, Any], name: str) -> Numbers:
    column: Numbers = np.asarray(columns[name])
    return column


def _where(known: NDArray[np.bool_], numbers: Numbers) -> list[Value]:
    return [number if is_known else None for number, is_known in zip(numbers.tolist(), known.tolist(), strict=True)]


def miopen_terms(problems: ProblemColumns) -> list[tuple[int | str, ...]]:
    """The values of MIOpen's COLUMNS for each `convnd` problem. Raises ProblemError if a value is not known."""
    values = problems.values
    deep = np.isin(values["layout"], ("NCDHW", "NDHWC"))
    forward = values["direction"] == "forward"
    columns: dict[str, NDArray[Any]] = {
        "spatial_dim": np.where(deep, 3, 2), "in_channels": values["from_c"], "out_channels": values["to_c"],
        "in_h": values["from_h"], "in_w": values["from_w"], "in_d": np.where(forward, values["d"], values["out_d"]),
        "batchsize": values["n"], "bias": (values["bias"] == "yes").astype(int), "group_count": values["groups"],
        "layout": values["layout"], "data_type": _words(values["dtype"], DTYPES),
        "direction": _words(values["direction"], DIRECTIONS)}
    for axis in "dhw":
        has_axis = deep if axis == "d" else np.full(len(deep), True)  # in 2-D, MIOpen writes 0 for depth
        columns |= {f"fil_{axis}": values[_FILTER[axis]], f"pad_{axis}": values[f"pad_{axis}"],
                  f"conv_stride_{axis}": np.where(has_axis, values[f"stride_{axis}"], 0),
                  f"dilation_{axis}": np.where(has_axis, values[f"dilation_{axis}"], 0)}
    for name in ("from_c", "to_c", "from_h", "from_w", "n", "d", "out_d"):
        if not problems.known[name].all():
            raise ProblemError(f"MIOpen must know {name} of a problem")
    return list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))


def _words(ours: NDArray[Any], table: Mapping[str, str]) -> NDArray[Any]:
    back = {word: theirs for theirs, word in table.items()}
    return np.array([back[word] for word in ours.tolist()])


def as_convnd(problem: Problem) -> Problem:
    """Convert a conv2d problem to convnd; convnd is returned as it is. Raises ProblemError if MIOpen cannot run it."""
    if problem.type == "convnd":
        return problem
    if problem.type != "conv2d" or problem["activation"] != "none":
        raise ProblemError(f"MIOpen's solvers are for convolutions without an activation, not for {problem.brief()}")
    features = {name: value for name, value in problem if name not in ("activation", "tolerance")}
    return Problem.make("convnd", **features)
