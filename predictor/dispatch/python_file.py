"""The dispatcher as a Python module without dependencies, and the decorator in it that races two members."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from seqtune.errors import MisuseError
from seqtune.kernels.arithmetic import LARGEST_POWER
from seqtune.kernels.expression import Expression

from .dispatcher import Dispatcher
from .domain import Span
from .facts import LARGEST, UNKNOWN
from .program import Program, summary

_START = '''\
from functools import wraps as _wraps
from math import gcd as _gcd
from math import lcm as _lcm
from time import perf_counter as _now
from typing import NamedTuple as _NamedTuple

_min, _max, _abs = min, max, abs


class Choice(_NamedTuple):
    """Numbers of members, of which SETTINGS has the settings; None: there is none that is valid."""

    member: object
    second: object
    sure: bool
    in_domain: bool


def _ceil_div(a, b):
    return (a + b - 1) // b


def _round_up(a, b):
    return (a + b - 1) // b * b


def _value(compute):
    try:
        return compute()
    except (ArithmeticError, LookupError, TypeError, ValueError):  # it has none, such as for a division by zero
        return None


def _fact(compute):
    value = _value(compute)
    return UNKNOWN if value is None or value != value else int(_max(-LARGEST, _min(LARGEST, value)))


def _choice(inside, facts, valid):
    if not _value(inside):
        return Choice(None, None, False, False)
    facts = list(map(_fact, facts))
    holds = [facts[fact] > threshold for fact, threshold in _TESTS]
    scores = [0] * len(SETTINGS)
    for scale, tests, leaves in _TREES:
        node = 0
        while node < len(tests):
            node = 2 * node + 1 + holds[tests[node]]
        for member, level in enumerate(leaves[node - len(tests)]):
            scores[member] += scale * level
    best = sorted((member for member in range(len(scores)) if _value(valid[member])), key=scores.__getitem__)[:2]
    sure = len(best) == 1 or (len(best) > 1 and scores[best[1]] - scores[best[0]] >= _SURE)
    return Choice(*(best + [None, None])[:2], sure, True)


def race(function):
    """Decorate `function(settings, *arguments, **features)`, which runs the kernel with the settings.

    The first call for a shape calls it with the rule's first two members, once to warm up and once timed, and later
    calls with the faster one. It must return when the work is done. A member whose call raises an exception loses; if
    all do, the exception of the first is raised. Without a valid member a ValueError is raised.
    """
    winners = {}

    @_wraps(function)
    def raced(*arguments, **features):
        shape = tuple(sorted(features.items()))
        if shape not in winners:
            choice = choose(**features)
            if choice.member is None:
                raise ValueError(f"no member is valid for {features}")
            times, errors = {}, []
            for member in [choice.member] if choice.second is None else [choice.member, choice.second]:
                try:
                    function(SETTINGS[member], *arguments, **features)
                    begin = _now()
                    function(SETTINGS[member], *arguments, **features)
                    times[member] = _now() - begin
                except Exception as error:
                    errors.append(error)
            if not times:
                raise errors[0]
            winners[shape] = _min(times, key=times.get)
        return function(SETTINGS[winners[shape]], *arguments, **features)

    return raced
'''


def python_file(dispatcher: Dispatcher) -> str:
    """The text of the module: `choose(**features)`, SETTINGS, and the decorator `race`.

    Raises MisuseError, as `Program.of` does.
    """
    program, rule, domain = Program.of(dispatcher), dispatcher.rule, dispatcher.domain
    head = "\n".join(summary(dispatcher)).replace("\\", "/").replace('"""', "'''")
    sizes = {name for name, _ in program.sizes}
    names = [feature.name for feature in program.features]
    outside = [f"{name} != {value!r}" for name, value in domain.fixed.items()]
    for feature in program.features:
        name, values = feature.name, domain.ranges[feature.name]
        outside.append(f"not ({values.low} <= {name} <= {values.high} and {name} == int({name}))"
                       if isinstance(values, Span) else f"{name} not in {values!r}")
    whole = [f"    {feature.name} = int({feature.name})" for feature in program.features
             if not (feature.choices or feature.number)]
    return "\n".join([
        f'"""{head}\n"""\n', _START, "",
        f"UNKNOWN, LARGEST, _SURE = {UNKNOWN}, {LARGEST}, {rule.sure}",
        f"KERNELS = {_listed(repr(member.kernel) for member in dispatcher.members)}",
        f"SETTINGS = {_listed(repr(dict(member.settings)) for member in dispatcher.members)}",
        f"_TESTS = {rule.tests!r}",
        f"_TREES = {_listed(repr((tree.scale, tree.tests, tree.leaves)) for tree in rule.trees)}", "", "",
        f"def choose(*, {', '.join([*names, *(f'{name}={value!r}' for name, value in domain.fixed.items())])}):",
        '    """The members to use for a shape; features with a default have one value in the domain."""',
        "    try:", f"        _outside = {' or '.join(outside)}", "    except TypeError:",
        f"        _found = ({''.join(f'({name!r}, {name}), ' for name in names)})",
        "        raise TypeError(f'sizes are numbers, and words are strings; found {_found}') from None",
        "    if _outside:", "        return Choice(None, None, False, False)", *whole,
        *(f"    {name} = lambda: {_text(expression, sizes)}" for name, expression in program.sizes),
        f"    return _choice({_all(program.inside, sizes)}, [",
        *(f"        lambda: {_text(fact, sizes)}," for fact in program.facts), "    ], [",
        *(f"        {_all(guard, sizes)}," for guard in program.guards), "    ])", ""])


def _listed(items: Iterable[str]) -> str:
    return f"({''.join(f'{chr(10)}    {item},' for item in items)}\n)"


def _all(conditions: Iterable[Expression], sizes: set[str]) -> str:
    return "lambda: " + (" and ".join(f"({_text(condition, sizes)})" for condition in conditions) or "True")


class _Python(ast.NodeTransformer):
    """Expressions call the module's own functions, and the sizes, which are functions as well."""

    def __init__(self, sizes: set[str]) -> None:
        self.sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Call(node, [], []) if node.id in self.sizes else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        return ast.Call(ast.Name("_" + node.func.id), [self.visit(argument) for argument in node.args], [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        is_small = isinstance(node.right, ast.Constant) and node.right.value in range(LARGEST_POWER)
        if isinstance(node.op, ast.Pow | ast.LShift | ast.RShift) and not is_small:
            raise MisuseError(f"the dispatcher has no form in Python: {ast.unparse(node):.80} may be a huge number")
        return self.generic_visit(node)  # type: ignore[return-value]


def _text(expression: Expression, sizes: set[str]) -> str:
    return ast.unparse(_Python(sizes).visit(ast.parse(expression.text, mode="eval").body))
