"""MIOpen's words for a convolution, and ours.

MIOpen describes the pass: backward, its input is the gradient of the output. We describe the convolution: `c`, `h`, `w`
are those of the forward input whatever the direction. Its perf-dbs keep one size only: backward with a stride, several
input sizes give it, and ours stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError
from seqtune.kernels.operations.feature import Value
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

Numbers = NDArray[np.int64]


def true_terms(found: Mapping[str, Numbers | Sequence[str]]) -> dict[str, list[Value]]:
    """The features of `convnd` problems from MIOpen's columns, unchecked.

    Besides COLUMNS there may be out_d, out_h, out_w, the sizes of the pass's other image. Words that mean nothing here
    become words that no feature has.
    """
    directions = list(map(str, found["direction"]))
    forward = np.array([word == "F" for word in directions])
    deep = _numbers(found, "spatial_dim") == 3
    source, target = _numbers(found, "in_channels"), _numbers(found, "out_channels")
    features: dict[str, list[Value]] = {
        "n": _numbers(found, "batchsize").tolist(),
        "c": np.where(forward, source, target).tolist(),
        "k": np.where(forward, target, source).tolist(),
        "groups": _numbers(found, "group_count").tolist(),
        "dtype": [DTYPES.get(str(word), f"?{word}") for word in found["data_type"]],
        "direction": [DIRECTIONS.get(word, f"?{word}") for word in directions],
        "layout": [_DEEP.get(word, "?") if three else word for word, three in
                   zip(map(str, found["layout"]), deep.tolist(), strict=True)],
        "bias": ["yes" if bias else "no" for bias in _numbers(found, "bias").tolist()],
    }
    for axis in "dhw":
        flat = ~deep if axis == "d" else np.zeros(len(deep), dtype=bool)
        taps = np.where(flat, 1, _numbers(found, f"fil_{axis}"))
        pad = np.where(flat, 0, _numbers(found, f"pad_{axis}"))
        stride = np.where(flat, 1, _numbers(found, f"conv_stride_{axis}"))
        dilation = np.where(flat, 1, _numbers(found, f"dilation_{axis}"))
        read = np.where(flat, 1, _numbers(found, f"in_{axis}"))
        everywhere = np.ones(len(deep), dtype=bool)
        if f"out_{axis}" in found:
            other, there = np.where(flat, 1, _numbers(found, f"out_{axis}")), everywhere
        else:  # MIOpen's own arithmetic, which rounds towards zero; and without a stride, the output tells the input
            steps = np.fix((read + 2 * pad - dilation * (taps - 1) - 1) / np.maximum(stride, 1)).astype(np.int64)
            other = np.where(forward, np.maximum(steps + 1, 1), read + dilation * (taps - 1) - 2 * pad)
            there = forward | (stride == 1)
        features[axis] = _where(forward | there, np.where(forward, read, other))
        features[f"out_{axis}"] = np.where(forward, other, read).tolist()
        features |= {_FILTER[axis]: taps.tolist(), f"pad_{axis}": pad.tolist(), f"stride_{axis}": stride.tolist(),
                     f"dilation_{axis}": dilation.tolist()}
    return features


def _numbers(found: Mapping[str, Any], name: str) -> Numbers:
    column: Numbers = np.asarray(found[name])
    return column


def _where(known: NDArray[np.bool_], numbers: Numbers) -> list[Value]:
    return [number if there else None for number, there in zip(numbers.tolist(), known.tolist(), strict=True)]


def miopen_terms(problems: ProblemColumns) -> list[tuple[int | str, ...]]:
    """Values of MIOpen's COLUMNS for each of some `convnd` problems. Raises ProblemError where one is not known."""
    values = problems.values
    deep = np.isin(values["layout"], ("NCDHW", "NDHWC"))
    forward = values["direction"] == "forward"
    found: dict[str, NDArray[Any]] = {
        "spatial_dim": np.where(deep, 3, 2), "in_channels": values["from_c"], "out_channels": values["to_c"],
        "in_h": values["from_h"], "in_w": values["from_w"], "in_d": np.where(forward, values["d"], values["out_d"]),
        "batchsize": values["n"], "bias": (values["bias"] == "yes").astype(int), "group_count": values["groups"],
        "layout": values["layout"], "data_type": _words(values["dtype"], DTYPES),
        "direction": _words(values["direction"], DIRECTIONS)}
    for axis in "dhw":
        there = deep if axis == "d" else np.full(len(deep), True)  # MIOpen writes 0 for what a 2-D convolution has not
        found |= {f"fil_{axis}": values[_FILTER[axis]], f"pad_{axis}": values[f"pad_{axis}"],
                  f"conv_stride_{axis}": np.where(there, values[f"stride_{axis}"], 0),
                  f"dilation_{axis}": np.where(there, values[f"dilation_{axis}"], 0)}
    for name in ("from_c", "to_c", "from_h", "from_w", "n", "d", "out_d"):
        if not problems.known[name].all():
            raise ProblemError(f"MIOpen must know {name} of a problem")
    return list(zip(*(found[name].tolist() for name in COLUMNS), strict=True))


def _words(ours: NDArray[Any], table: Mapping[str, str]) -> NDArray[Any]:
    back = {word: theirs for theirs, word in table.items()}
    return np.array([back[word] for word in ours.tolist()])


def as_convnd(problem: Problem) -> Problem:
    """A 2-D convolution as one of which sizes may be unknown. Raises ProblemError where MIOpen has no such problem."""
    if problem.type == "convnd":
        return problem
    if problem.type != "conv2d" or problem["activation"] != "none":
        raise ProblemError(f"MIOpen's solvers are for convolutions without an activation, not for {problem.brief()}")
    features = {name: value for name, value in problem if name not in ("activation", "tolerance")}
    return Problem.make("convnd", **features)
