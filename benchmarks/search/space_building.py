"""How long a search space takes to build: `python -m benchmarks.space_building definitions.json [--repeats 7]`.

Ours (declaring the kernel included) beside fifty lines of plain NumPy, which apply each condition as soon as its names
are bound, and beside Kernel Tuner where it is installed. CPU seconds, median of interleaved repeats. A file of
definitions holds, by name of the space: params (each with name and values) and restrictions.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import operator
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import positive, run_program
from benchmarks.common.report import markdown, processor
from seqtune.errors import FormatError, SeqtuneError
from seqtune.kernels import enumeration
from seqtune.kernels import space as spaces
from seqtune.kernels.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem

LARGEST_FILE = 10_000_000  # bytes
THREADS = 1024  # of a block, the most that Kernel Tuner allows: as in its simulation mode
Columns = dict[str, NDArray[Any]]
Condition = Callable[[Columns], Any]
_DEVICE, _PROBLEM = Device("recorded:any", "recorded", "unknown", "none"), Problem.make("recorded")


def ours(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """The number of configurations of a space, built anew."""
    enumeration.enumerate_rows.cache_clear()
    kernel = Kernel("recorded.any", "recorded", ("recorded",),
                    tuple(Parameter(name, tuple(column)) for name, column in values.items()),
                    tuple(Constraint.of(text, "restricted") for text in restrictions), ())
    return len(spaces.SearchSpace(kernel, _PROBLEM, _DEVICE))


def kernel_tuner(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """The same by Kernel Tuner."""
    from kernel_tuner.searchspace import Searchspace

    return int(Searchspace(dict(values), list(restrictions), THREADS).size)


def plain(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """The same by plain NumPy: this function and what stands below it, up to `definitions`."""
    pending = [(set(Expression(text).names), condition(ast.parse(text.strip(), mode="eval").body))
               for text in restrictions]
    columns: Columns = {}
    count = 1
    for name, column in values.items():
        columns = {key: np.repeat(known, len(column)) for key, known in columns.items()}
        columns[name] = np.tile(np.array(column), count)
        for one in [one for one in pending if one[0] <= set(columns)]:
            pending.remove(one)
            keep = one[1](columns)
            columns = {key: known[keep] for key, known in columns.items()}
        count = len(columns[name])
    return count


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.And: np.logical_and, ast.Or: np.logical_or, ast.Not: np.logical_not}


def condition(node: ast.expr) -> Condition:
    """An expression as NumPy operations on columns."""
    match node:
        case ast.Constant(value=value):
            return lambda columns: value
        case ast.Name(id=name):
            return lambda columns: columns[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            sides, apply = (condition(left), condition(right)), _OPERATORS[type(op)]
            return lambda columns: apply(sides[0](columns), sides[1](columns))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = condition(operand)
            return lambda columns: np.logical_not(inner(columns))
        case ast.BoolOp(op=junctor, values=parts):
            join, inner_parts = _OPERATORS[type(junctor)], [condition(part) for part in parts]
            return lambda columns: reduce(join, (part(columns) for part in inner_parts))
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(one) in _OPERATORS for one in ops):
            terms, compare = [condition(part) for part in (left, *rest)], [_OPERATORS[type(one)] for one in ops]
            return lambda columns: reduce(np.logical_and, (
                apply(one(columns), other(columns))
                for apply, one, other in zip(compare, terms[:-1], terms[1:], strict=True)))
    raise FormatError(f"plain NumPy does not know {ast.unparse(node)[:60]!r}")


def definitions(path: Path) -> dict[str, tuple[dict[str, list[int]], list[str]]]:
    """Values and restrictions by name of the space. Raises FormatError."""
    try:
        return {str(name): ({str(one["name"]): list(one["values"]) for one in space["params"]},
                            list(map(str, space["restrictions"])))
                for name, space in json.loads(read_bounded(path, LARGEST_FILE)).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError(f"{path} does not define spaces by params and restrictions") from None


def measure(values: Mapping[str, Sequence[int]], restrictions: Sequence[str], repeats: int) -> dict[str, Any]:
    """Sizes, and the median CPU seconds of every way; all ways must find the same number of configurations."""
    ways = {"ours": ours, "plain": plain}
    if importlib.util.find_spec("kernel_tuner") is not None:
        ways["kernel_tuner"] = kernel_tuner
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sizes = {}
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.process_time()
            sizes[name] = way(values, restrictions)
            seconds[name].append(time.process_time() - began)
    if len(set(sizes.values())) > 1:
        raise SeqtuneError(f"the ways differ in the number of configurations: {sizes}")
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {"configurations": sizes["ours"], "cartesian": int(np.prod([len(one) for one in values.values()])),
            **medians, "ratio": medians["ours"] / medians["plain"]}


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A line for each space."""
    return markdown(
        ["space", "configurations", "of", "ours, ms", "plain NumPy, ms", "Kernel Tuner, ms"],
        [[name, f"{one['configurations']:,}", f"{one['cartesian']:,}", f"{1e3 * one['ours']:.1f}",
          f"{1e3 * one['plain']:.1f}", f"{1e3 * one['kernel_tuner']:.0f}" if "kernel_tuner" in one else "-"]
         for name, one in found.items()])


def page(found: Results) -> Page:
    """The page of the result."""
    largest = max(found["spaces"].items(), key=lambda item: int(item[1]["cartesian"]))
    return Page(
        "space_building", "Building a search space",
        f"The {largest[1]['configurations']:,} valid of {largest[1]['cartesian']:,} configurations of {largest[0]} are "
        f"found in {1e3 * largest[1]['ours']:.0f} ms.",
        "python -m benchmarks.space_building definitions.json --out docs", table(found["spaces"]), measured_on(found),
        "Median processor time of one enumeration with nothing cached. `plain NumPy` are fifty lines that build the "
        "columns parameter by parameter, in this program. All ways must find the same number of configurations.")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("definitions", type=Path)
    parser.add_argument("--repeats", type=positive, default=7)
    add_out(parser)
    given = parser.parse_args()
    check_ready(given.out)
    spaces = {name: measure(values, restrictions, given.repeats)
              for name, (values, restrictions) in definitions(given.definitions).items()}
    print(table(spaces))
    publish(given.out, page, {"machine": processor(), "spaces": spaces})


if __name__ == "__main__":
    run_program("space_building", main)
