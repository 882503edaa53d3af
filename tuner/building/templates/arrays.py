"""Arrays of a check: what they hold before a run, how far outputs are from what they should be, and the line on it.

`launch.json` describes them under "check". bf16 numbers are the upper halves of fp32 numbers, as uint16.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"fp16": "f2", "bf16": "u2", "fp32": "f4", "fp64": "f8", "int8": "i1", "uint8": "u1", "int16": "i2",
         "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8"}
Arrays = Mapping[str, NDArray[Any]]
PADDED = -1


def draw(seed: int, count: int) -> NDArray[np.float64]:
    """Numbers in 0..1 that the seed determines (splitmix64)."""
    with np.errstate(over="ignore"):
        bits = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + (
            np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ bits >> np.uint64(31)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def stored(numbers: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Numbers as elements of a type; whole ones are rounded down."""
    if dtype == "bf16":
        bits = numbers.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return (np.floor(numbers) if "int" in dtype else numbers).astype(TYPES[dtype])


def decoded(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Elements as numbers: bf16 as fp32, others as they are."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


def places(packing: Mapping[str, Any]) -> NDArray[np.int64]:
    """The place in the operand of each element of its packed array, by a "packing" of launch.json; -1: padding.

    Loops, the outermost first, move indices along axes, each of which has parts in the operand: sizes and steps.
    """
    loops = packing["loops"]
    turns = [loop["turns"] for loop in loops]
    numbers, place, inside = np.indices(turns, sparse=True), np.zeros(turns, np.int64), np.ones(turns, np.bool_)
    for axis, parts in enumerate(packing["axes"]):
        index = np.zeros_like(place)
        for number, loop in zip(numbers, loops, strict=True):
            for move in loop["moves"]:
                if move["axis"] == axis:
                    index += np.minimum(number * move["step"], move["most"])
        inside &= index < math.prod(size for size, _ in parts)
        for size, step in reversed(parts):
            place += index % size * step
            index //= size
    return np.where(inside, place, PADDED).reshape(-1)


def packed(array: NDArray[Any], packing: Mapping[str, Any]) -> NDArray[Any]:
    """An operand in the order in which the kernel reads it, flat; padding is 0."""
    elements = np.append(array, array.dtype.type(0))[places(packing)]
    return elements.astype(np.uint32) << 16 if packing["packed_type"] != packing["type"] else elements


def make_array(content: Mapping[str, Any], dtype: str, count: int, folder: Path, others: Arrays) -> NDArray[Any]:
    """An array by its description in "contents", flat."""
    if content["kind"] == "file":
        return np.fromfile(folder / content["file"], TYPES[dtype])
    if content["kind"] == "copy":
        return others[content["of"]].reshape(-1)
    if content["kind"] == "index":
        return stored(np.arange(count, dtype=np.float64), dtype)
    width = content["high"] - content["low"] + ("int" in dtype)  # whole numbers include both ends
    return stored(width * draw(content["seed"], count) + content["low"], dtype)


def make_arrays(about: Mapping[str, Any], folder: Path, given: Arrays | None = None) -> dict[str, NDArray[Any]]:
    """The inputs, and the outputs that have contents, by name; those that are `given` stay."""
    arrays = dict(given or {})
    for name, content in about["check"]["contents"].items():
        if name not in arrays:
            buffer = about["buffers"][name]
            count = math.prod(buffer["shape"])
            arrays[name] = make_array(content, buffer["type"], count, folder, arrays).reshape(buffer["shape"])
    return arrays


def verdict(about: Mapping[str, Any], outputs: Arrays, references: Arrays, folder: Path) -> tuple[float, float]:
    """The largest error and the allowed one, of the first wrong output or else of the worst one.

    `references` has the expected outputs that stand in no file.
    """
    worst = 0.0, 0.0
    for name, rule in about["check"]["outputs"].items():
        dtype, sizes = about["buffers"][name]["type"], None
        if name in references:
            expected = references[name].reshape(-1)[::rule["step"]]
        else:
            expected = np.fromfile(folder / rule["expected"], TYPES[rule["type"]])
            sizes = np.fromfile(folder / rule["sizes"])
        error = largest_error(decoded(outputs[name].reshape(-1), dtype), expected, sizes, rule["step"])
        worst = max(worst, (error, rule["allowed"]))
        if not error <= rule["allowed"]:
            return error, rule["allowed"]
    return worst


def largest_error(output: NDArray[Any], expected: NDArray[Any], sizes: NDArray[np.float64] | None,
                  step: int) -> float:
    """The largest error, each relative to its size: of `sizes`, else the largest expected number.

    Element i * step should be expected[i]; a step of 0 compares the sum of all finite elements. A NaN is infinitely
    wrong unless it is expected.
    """
    compared = output[::step] if step else np.array([output.sum(dtype=np.float64, where=np.isfinite(output))])
    size = np.asarray(np.abs(expected).max(initial=0.0) or 1.0) if sizes is None else sizes
    with np.errstate(invalid="ignore"):
        errors = np.abs(np.subtract(compared, expected, dtype=np.float64)) / size
        equal = (compared == expected) | (np.isnan(compared) & np.isnan(expected))
    errors = np.where(equal, 0.0, np.where(np.isnan(errors), np.inf, np.maximum(errors, 1e-300)))
    return float(errors.max(initial=0.0))


def report(about: Mapping[str, Any], device: str, worst: tuple[float, float], run: Callable[[], float],
           runs: int) -> int:
    """Print the line of a check, for right results with the median and the least of the seconds that `run` returns.

    `worst` is the `verdict`. Returns 1 if the results are wrong, else 0.
    """
    (error, allowed), check = worst, about["check"]
    is_right = error <= allowed
    line = f"{about['name']} on {device}: ran"
    if check["outputs"]:
        line = (f"{about['name']} on {device}: {'right' if is_right else 'WRONG'}, largest error {error:.2e} "
                f"(allowed {allowed:.1e})")
    line += check["remark"]
    if is_right:
        times = [1e6 * run() for _ in range(runs)]
        line += f", median of {runs} runs {statistics.median(times):.1f} us, least {min(times):.1f} us"
    print(line)
    return int(not is_right)
