"""Combinations: conditions that the values of parameters occur together in a table, such as that of compiled kernels.

The table may differ by the value of a name of the device or problem (`key`). Expressions have a bounded length, so the
table is divided among derived quantities. The prefixes of the rows are checked wherever the enumeration of a space
would otherwise grow too far, and at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .expression import LONGEST_EXPRESSION
from .kernel import Parameter, Setting

MOST_UNCHECKED = 20_000  # partial configurations between two checks
ROOM = 60  # characters of an expression around the numbers of its rows

Texts = list[tuple[str, str]]  # name and expression, or expression and reason


def combinations(name: str, parameters: Sequence[Parameter], key: str,
                 tables: Mapping[str, Iterable[Sequence[Setting]]], reason: str) -> tuple[Texts, Texts]:
    """The derived quantities, whose names begin with `name`, and the constraints that allow the rows of the tables.

    `tables` has the rows by the value of `key`, a word: a value for each of the parameters, in order. Every value must
    be one of its parameter's.
    """
    numbers = [{value: number for number, value in enumerate(parameter.values)} for parameter in parameters]
    rows = {word: {tuple(index[value] for index, value in zip(numbers, row, strict=True)) for row in table}
            for word, table in tables.items()}
    derived: Texts = []
    constraints: Texts = []
    code, unchecked = "", 1
    codes: dict[str, dict[tuple[int, ...], int]] = {word: dict.fromkeys(table, 0) for word, table in rows.items()}
    for position, (parameter, index) in enumerate(zip(parameters, numbers, strict=True)):
        radix = len(index)
        following = f"{name}_{position + 1}"
        number_pieces, number = _number(f"{following}_of", parameter.name, index)
        derived += [*number_pieces, (following, number if not code else f"{code} * {radix} + {number}")]
        codes = {word: {row: value * radix + row[position] for row, value in table.items()}
                 for word, table in codes.items()}
        code, unchecked = following, unchecked * radix
        after = len(numbers[position + 1]) if position + 1 < len(parameters) else MOST_UNCHECKED + 1
        if unchecked * after <= MOST_UNCHECKED:
            continue
        pieces = [(f"{following}_{number}", piece) for number, piece in enumerate(
            piece for word, table in codes.items() for piece in _pieces(key, word, code, sorted(set(table.values()))))]
        derived += pieces
        constraints.append((f"{' + '.join(piece for piece, _ in pieces)} > 0", reason))
        unchecked = max(len(set(table.values())) for table in codes.values())
    return derived, constraints


def _number(name: str, parameter: str, index: Mapping[Setting, int]) -> tuple[Texts, str]:
    """An expression for the number of a parameter's value, and the derived quantities that it reads.

    Where a look-up would be too long, each binary digit is 1 for some of the values.
    """
    text = f"{dict(index)}[{parameter}]"
    if len(text) < LONGEST_EXPRESSION - ROOM:
        return [], text
    pieces: Texts = []
    for digit in range((len(index) - 1).bit_length()):
        values = [repr(value) for value, number in index.items() if number >> digit & 1]
        pieces += [(f"{name}_{digit}_{part}", f"{1 << digit} if {parameter} in ({', '.join(chosen)},) else 0")
                   for part, chosen in enumerate(_parts(values, LONGEST_EXPRESSION - ROOM - len(parameter)))]
    return pieces, f"({' + '.join(piece for piece, _ in pieces)})"


def _pieces(key: str, word: str, code: str, values: Sequence[int]) -> Iterable[str]:
    """Expressions that are 1 if the code is among the values, each of which is in one of them, and else 0."""
    room = LONGEST_EXPRESSION - ROOM - len(key) - len(word) - len(code)
    for chosen in _parts(map(str, values), room):
        yield f"1 if {key} == {word!r} and {code} in ({', '.join(chosen)},) else 0"


def _parts(texts: Iterable[str], room: int) -> Iterable[list[str]]:
    """Divide texts into lists that need no more room, with separators. A text has at most a part of it."""
    part: list[str] = []
    left = room
    for text in texts:
        if part and left < len(text) + 2:
            yield part
            part, left = [], room
        part.append(text)
        left -= len(text) + 2
    if part:
        yield part
