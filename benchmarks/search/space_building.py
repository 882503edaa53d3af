"""Time the enumeration of search spaces: `python -m benchmarks.space_building definitions.json [--repeats 7]`.

Our enumeration, including the declaration of the kernel, is compared with fifty lines of plain NumPy, which apply each
condition as soon as its parameters have values, and with Kernel Tuner if it is installed. The times are CPU seconds,
medians of levelled rounds. A file of definitions maps the name of a space to its params (each with name and values) and
restrictions.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import operator
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
from seqtune.kernels import space as spaces
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.spaces import skeleton
from seqtune.tuner.measuring.comparison import in_rounds, typical

LARGEST_FILE = 10_000_000  # bytes
THREADS = 1024  # largest block that Kernel Tuner allows in its simulation mode
Columns = dict[str, NDArray[Any]]
Condition = Callable[[Columns], Any]
_DEVICE, _PROBLEM = Device("recorded:any", "recorded", "unknown", "none"), Problem.make("recorded")


def ours(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """Build a space and return its number of configurations."""
    skeleton.valid_rows.cache_clear()
    skeleton.lazy_skeleton.cache_clear()  # a first problem of a kernel
    kernel = Kernel("recorded.any", "recorded", ("recorded",),
                    tuple(Parameter(name, tuple(column)) for name, column in values.items()),
                    tuple(Constraint.of(text, "restricted") for text in restrictions), ())
    return len(spaces.SearchSpace(kernel, _PROBLEM, _DEVICE))


def kernel_tuner(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """Build a space with Kernel Tuner and return its number of configurations."""
    from kernel_tuner.searchspace import Searchspace

    return int(Searchspace(dict(values), list(restrictions), THREADS).size)


def plain(values: Mapping[str, Sequence[int]], restrictions: Sequence[str]) -> int:
    """Build a space with plain NumPy (this function and `condition`) and return its number of configurations."""
    pending = [(set(Expression(text).names), condition(ast.parse(text.strip(), mode="eval").body))
               for text in restrictions]
    columns: Columns = {}
    count = 1
    for name, column in values.items():
        columns = {key: np.repeat(known, len(column)) for key, known in columns.items()}
        columns[name] = np.tile(np.array(column), count)
        for restriction in [restriction for restriction in pending if restriction[0] <= set(columns)]:
            pending.remove(restriction)
            keep = restriction[1](columns)
            columns = {key: known[keep] for key, known in columns.items()}
        count = len(columns[name])
    return count


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.And: np.logical_and, ast.Or: np.logical_or, ast.Not: np.logical_not}


def condition(node: ast.expr) -> Condition:
    """Translate an expression into NumPy operations on columns. Raises FormatError."""
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
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(term) in _OPERATORS for term in ops):
            terms, compare = [condition(part) for part in (left, *rest)], [_OPERATORS[type(term)] for term in ops]
            return lambda columns: reduce(np.logical_and, (
                apply(term(columns), other(columns))
                for apply, term, other in zip(compare, terms[:-1], terms[1:], strict=True)))
    raise FormatError(f"plain NumPy does not support {ast.unparse(node)[:60]!r}")


def definitions(path: Path) -> dict[str, tuple[dict[str, list[int]], list[str]]]:
    """Read the values and restrictions of each space from a file. Raises FormatError."""
    try:
        return {str(name): ({str(parameter["name"]): list(parameter["values"]) for parameter in space["params"]},
                            list(map(str, space["restrictions"])))
                for name, space in json.loads(read_bounded(path, LARGEST_FILE)).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError(f"{path} does not define spaces by params and restrictions") from None


def measure(values: Mapping[str, Sequence[int]], restrictions: Sequence[str], repeats: int) -> dict[str, Any]:
    """The sizes of a space and the typical CPU seconds of each method.

    Raises SeqtuneError if the methods find different numbers of configurations.
    """
    methods = {"ours": ours, "plain": plain}
    if importlib.util.find_spec("kernel_tuner") is not None:
        methods["kernel_tuner"] = kernel_tuner
    names, sizes = list(methods), dict[str, int]()

    def take(index: int) -> float:
        start = time.process_time()
        sizes[names[index]] = methods[names[index]](values, restrictions)
        return time.process_time() - start

    seconds = typical(dict(zip(names, in_rounds(take, len(names), repeats, seed=0), strict=True)))
    if len(set(sizes.values())) > 1:
        raise SeqtuneError(f"the methods find different numbers of configurations: {sizes}")
    return {"configurations": sizes["ours"], "cartesian": int(np.prod([len(column) for column in values.values()])),
            **seconds, "ratio": seconds["ours"] / seconds["plain"]}


def table(spaces: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the table: a line for each space."""
    return markdown(
        ["space", "configurations", "of", "ours, ms", "plain NumPy, ms", "Kernel Tuner, ms"],
        [[name, f"{space['configurations']:,}", f"{space['cartesian']:,}", f"{1e3 * space['ours']:.1f}",
          f"{1e3 * space['plain']:.1f}", f"{1e3 * space['kernel_tuner']:.0f}" if "kernel_tuner" in space else "-"]
         for name, space in spaces.items()])


def page(results: Results) -> Page:
    """Make the page of the results."""
    largest = max(results["spaces"].items(), key=lambda item: int(item[1]["cartesian"]))
    return Page(
        "space_building", "Building a search space",
        f"The {largest[1]['configurations']:,} valid of {largest[1]['cartesian']:,} configurations of {largest[0]} are "
        f"found in {1e3 * largest[1]['ours']:.0f} ms.",
        "python -m benchmarks.space_building definitions.json --out docs", table(results["spaces"]),
        measured_on(results),
        "The times are medians of the processor time of one enumeration, with nothing cached. `configurations` are "
        "valid, `of` counts all combinations of values. `plain NumPy` are fifty lines of this program that build the "
        "columns parameter by parameter.",
        ("All methods must find the same number of valid configurations, or the program fails.",))


def main() -> None:
    """Run the command line."""
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
