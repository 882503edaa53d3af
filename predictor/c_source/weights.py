"""Weights: the tensors of a network as constant arrays of C.

A weight is a whole number of three digits in base 92, times a scale: 19.5 bits. Digits are printable characters, so
three of them take less room in the source than a number of 16 bits, and string literals stay below the 4095 characters
that C99 guarantees. The order of the digits is described in `runtime/math_start.c`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MisuseError

from ..translator.numpy_layers import Linear, NumpyLayer
from ..translator.rows import Floats

BASE = 92  # digits are the characters 35 (#) to 126 (~)
FIRST = 35
PANEL = 16  # columns that are computed together
MOST_KEPT = 400_000  # weights that are decoded once: 1.6 MB of the caller's stack
STRING = 21  # fours of rows in one string literal: 21 * 192 = 4032 characters
_SHIFT = BASE**3 // 2  # of whole numbers, so that they are positive
_DIGITS = FIRST * (BASE**2 + BASE + 1)
OFFSET = (_DIGITS + _SHIFT) // BASE * BASE  # of a weight's characters; a multiple of the base
LARGEST = BASE**3 // 2 - BASE  # magnitude of a weight's whole number


def floats(name: str, values: NDArray[np.float32]) -> str:
    """A constant array of floats."""
    texts = [f"{value!s}f" for value in np.asarray(values, np.float32).ravel()]
    lines = ["    " + ", ".join(texts[begin:begin + 10]) for begin in range(0, len(texts), 10)]
    return f"static const float {name}[] = {{\n" + ",\n".join(lines) + "\n};"


def whole_numbers(kind: str, name: str, values: Sequence[int]) -> str:
    """A constant array of whole numbers of the type `kind`."""
    texts = [str(value) if abs(value) < 2**31 else f"INT64_C({value})" for value in values]
    return f"static const {kind} {name}[] = {{{', '.join(texts)}}};"


def digits(numbers: NDArray[np.int64], count: int) -> NDArray[np.uint8]:
    """The characters of whole numbers in base 92, highest digit first: (number, digit)."""
    return (numbers[:, None] // BASE ** np.arange(count)[::-1] % BASE + FIRST).astype(np.uint8)


def string_literal(characters: NDArray[np.uint8]) -> str:
    """Digits as a string literal."""
    text = characters.tobytes().decode("ascii").replace("\\", "\\\\")
    return '"' + re.sub(r"(?<=\?)\?", r"\\?", text) + '"'  # no trigraphs


def bits(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """The bits of floats as whole numbers, which five digits hold."""
    return np.ascontiguousarray(numbers, np.float32).view(np.uint32).astype(np.int64)


@dataclass
class Weights:
    """The digits of all matrices and tables of a file, and the declarations that name them."""

    parts: list[NDArray[np.uint8]] = field(default_factory=list)  # (four rows of 16, 192)
    quads: int = 0
    lines: list[str] = field(default_factory=list)
    deepest: int = 1  # rows of the deepest matrix
    kept: int = 0  # weights that a prediction decodes once, because it uses them for every word
    kept_runs: list[tuple[int, int]] = field(default_factory=list)  # (first four rows, number of fours)

    def linear(self, name: str, linear: Linear, bias: bool = True, keep: bool = False) -> None:
        """Declare a linear map; `keep` one that is applied to every word."""
        self.lines.append(f"static const sq_linear {name} = {self.initial(name, linear, bias, keep)};")

    def initial(self, name: str, linear: Linear, bias: bool = True, keep: bool = False) -> str:
        """The initial value of a linear map, whose arrays are declared under this name."""
        inside, outside = linear.weight.shape
        if outside % PANEL:
            raise MisuseError(f"this checkpoint has a layer of {outside} numbers; in C they are multiples of {PANEL}")
        self.deepest = max(self.deepest, inside)
        scale = _scale(np.abs(linear.weight).max(axis=0))
        numbers = _numbers(linear.weight, scale).reshape(inside, outside // PANEL, PANEL).transpose(1, 0, 2)
        quad = self._add(numbers)
        self.lines.append(floats(f"{name}_scale", scale))
        if bias:
            self.lines.append(floats(f"{name}_bias", linear.bias))
        count, kept = self.quads - quad, -1
        if keep and self.kept + count * 4 * PANEL <= MOST_KEPT:
            kept = self.kept
            self.kept += count * 4 * PANEL
            self.kept_runs.append((quad, count))
        return f"{{{inside}, {outside}, {quad}, {kept}, {name}_scale, {f'{name}_bias' if bias else '0'}}}"

    def table(self, name: str, rows: Floats) -> None:
        """Declare a table (row, number) that is looked up by row."""
        if rows.shape[1] % PANEL:
            raise MisuseError(f"this checkpoint has rows of {rows.shape[1]} numbers; in C they are multiples of "
                              f"{PANEL}")
        if not len(rows):
            rows = np.zeros((1, rows.shape[1]), np.float32)  # C has no empty arrays; nothing looks it up
        scale = _scale(np.abs(rows).max(axis=1))
        quad = self._add(_numbers(rows, scale[:, None]).reshape(len(rows), -1, PANEL))
        self.lines += [floats(f"{name}_scale", scale),
                       f"static const sq_table {name} = {{{quad}, {name}_scale}};"]

    def maps(self, name: str, maps: Sequence[Floats]) -> None:
        """Declare maps (row, number), each with one scale, of which a few rows are needed at a time."""
        initial = []
        for rows in maps:
            scale = _scale(np.abs(rows).max(keepdims=True))
            quad = self._add(_numbers(rows, scale).reshape(len(rows), -1, PANEL))
            initial.append(f"{{{quad}, {len(rows)}, {scale[0, 0]!s}f}}")
        self.lines.append(f"static const sq_map {name}[] = {{{', '.join(initial)}}};")

    def layers(self, name: str, layers: Sequence[NumpyLayer], cross: bool) -> None:
        """Declare the layers of the encoder or, with `cross` attention, of the decoder."""
        empty = "{0, 0, 0, -1, 0, 0}"
        texts = []
        for number, layer in enumerate(layers):
            maps: Mapping[str, Linear] = {
                "words": layer.words, "out": layer.out, **(
                    {"cross_query": layer.cross_query, "cross_out": layer.cross_out} if cross else {}),
                "inner": layer.inner, "outer": layer.outer}
            initial = {part: self.initial(f"{name}_{number}_{part}", linear, keep=cross)
                       for part, linear in maps.items()}
            texts.append("    {" + ",\n     ".join(initial.get(part, empty) for part in (
                "words", "out", "cross_query", "cross_out", "inner", "outer")) + "}")
        self.lines.append(f"static const sq_layer {name}[] = {{\n" + ",\n".join(texts) + "\n};")

    def kept_table(self) -> str:
        """The rows that a prediction decodes once; the last run is empty."""
        runs = ", ".join(f"{{{quad}, {count}}}" for quad, count in [*self.kept_runs, (0, 0)])
        return f"static const sq_run sq_kept_runs[] = {{{runs}}};"

    def text(self) -> str:
        """The string literals with all digits."""
        digits = np.concatenate([*self.parts, np.zeros((1, 12 * PANEL), np.uint8)])
        digits = np.concatenate([digits, np.zeros((-len(digits) % STRING, 12 * PANEL), np.uint8)])
        strings = []
        for row in digits.reshape(-1, STRING * 12 * PANEL) + FIRST:
            strings.append(string_literal(row.astype(np.uint8)))
        return (f"static const char sq_text[][{STRING * 12 * PANEL + 1}] = {{\n" + ",\n".join(strings) + "\n};")

    def _add(self, numbers: NDArray[np.int64]) -> int:
        """Append whole numbers (panel, row, 16); the result is the number of the first four rows."""
        panels, rows, _ = numbers.shape
        padded = np.zeros((panels, -(-rows // 4) * 4, PANEL), np.int64)
        padded[:, :rows] = numbers
        shifted = (padded + OFFSET - _DIGITS).reshape(-1, 4, PANEL).transpose(0, 2, 1)  # (four rows, column, row)
        pairs = np.stack([shifted // BASE**2, shifted // BASE % BASE], axis=3)
        parts = [part.reshape(-1, 4 * PANEL) for part in (pairs[:, :, :2], pairs[:, :, 2:], shifted % BASE)]
        self.parts.append(np.concatenate(parts, axis=1).astype(np.uint8))
        self.quads += len(shifted)
        return self.quads - len(shifted)


def _scale(largest: Floats) -> Floats:
    if not np.isfinite(largest).all():
        raise MisuseError("the checkpoint has a weight that is no number; train it again")
    return np.asarray(np.where(largest > 0, largest / LARGEST, 0), np.float32)


def _numbers(weights: Floats, scale: Floats) -> NDArray[np.int64]:
    exact = np.divide(weights.astype(np.float64), scale, out=np.zeros(weights.shape), where=scale > 0)
    return np.clip(np.rint(exact), -LARGEST, LARGEST).astype(np.int64)
