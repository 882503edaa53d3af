"""The dispatcher as a Python module without dependencies, and the decorator in it that races two members."""

from __future__ import annotations

import ast

from seqtune.kernels.expression import Expression

from .dispatcher import Dispatcher
from .facts import LARGEST, UNKNOWN
from .program import Program, summary
from .tree import DIGITS, LEVELS, PER_LEVEL

_CALLS = {ast.Pow: "_power", ast.LShift: "_left", ast.RShift: "_right"}

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


class _Undefined:
    """A size that has no value: nothing that reads it holds."""

    def __eq__(self, other):
        raise TypeError

    __ne__ = __bool__ = __eq__
    __hash__ = None


def _check_numbers(**sizes):
    for name, size in sizes.items():
        try:
            size < 0
        except TypeError:
            raise TypeError(f"{name}={size!r:.40} is not a number") from None


def _ceil_div(a, b):
    return (a + b - 1) // b


def _round_up(a, b):
    return (a + b - 1) // b * b


def _power(a, b):
    if _abs(b) > 64 or _abs(a) > 2**31:
        raise ValueError
    return a**b


def _left(a, b):
    if not 0 <= b <= 1000:
        raise ValueError
    return a << b


def _right(a, b):
    if not 0 <= b <= 1000:
        raise ValueError
    return a >> b


def _defined(compute):
    try:
        return compute()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return _Undefined()


def _holds(conditions, numbers):
    return all(_defined(lambda: bool(conditions[number]())) is True for number in numbers)


def _fact(compute):
    value = _defined(compute)
    return UNKNOWN if isinstance(value, _Undefined) or value != value else int(_max(-LARGEST, _min(LARGEST, value)))


def _numbers(text):
    codes = [63 if character == "!" else ord(character) for character in text]
    return [code - 35 - (code > 92) for code in codes]


def _score(facts):
    holds = [facts[fact] > threshold for fact, threshold in _TESTS]
    scores = [0] * len(SETTINGS)
    for scale, nodes, digits in _TREES:
        node = 0
        while node < nodes:
            at = node * WIDTH
            node = 2 * node + 1 + holds[digits[at] if WIDTH == 1 else digits[at] * DIGITS + digits[at + 1]]
        at = nodes * WIDTH + (node - nodes) * ((len(scores) + 1) // 2)
        for member in range(len(scores)):
            scores[member] += scale * (divmod(digits[at + member // 2], PER_LEVEL)[member % 2] - LEVELS)
    return scores


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
    parts = [f'"""{_plain(summary(dispatcher))}\n"""', _START, f"UNKNOWN, LARGEST = {UNKNOWN}, {LARGEST}",
             f"WIDTH, DIGITS, LEVELS, PER_LEVEL, LEAD = {rule.width}, {DIGITS}, {LEVELS}, {PER_LEVEL}, {rule.sure}",
             "KERNELS = " + _listed([repr(member.kernel) for member in dispatcher.members]),
             "SETTINGS = " + _listed([repr(dict(member.settings)) for member in dispatcher.members]),
             "_TESTS = " + _listed([repr(test) for test in zip(rule.test_facts.tolist(), rule.thresholds.tolist(),
                                                               strict=True)]),
             "_TREES = " + _listed([f"({tree.scale}, {len(tree.tests)}, _numbers({text!r}))"
                                    for tree, text in zip(rule.trees, rule.tree_texts(), strict=True)])]
    names = [feature.name for feature in program.features]
    fixed = [f"{name}={value!r}" for name, value in domain.fixed.items()]
    lines = [f"def choose(*, {', '.join([*names, *fixed])}):",
             '    """The members to use for a shape; features with a default have one value in the domain."""',
             *([f"    if ({', '.join(domain.fixed)},) != {tuple(domain.fixed.values())!r}:",
                "        return Choice(None, None, False, False)"] if fixed else [])]
    sizes = [f"{feature.name}={feature.name}" for feature in program.features if not feature.choices]
    lines += [f"    _check_numbers({', '.join(sizes)})"] if sizes else []
    for feature in program.features:
        value = f"{feature.name} not in {feature.choices!r}" if feature.choices else \
            f"not 0 < {feature.name} < float('inf')" if feature.number else \
            f"{feature.name} not in {feature.numbers!r}" if feature.numbers else \
            "not ({0.low} <= {1} <= {0.high} and int({1}) == {1})".format(program.limits[feature.name], feature.name)
        lines += [f"    if {value}:", "        return Choice(None, None, False, False)"]
    lines += [f"    {name} = _defined(lambda: {_text(expression)})" for name, expression in program.sizes]
    conditions = (f"        lambda: {_text(condition)}," for condition in program.conditions)
    lines += ["    _conditions = (", *conditions, "    )",
              f"    if not _holds(_conditions, {program.rules!r}):", "        return Choice(None, None, False, False)",
              "    _scores = _score([", *(f"        _fact(lambda: {_text(fact)})," for fact in program.facts), "    ])",
              "    _best = []", "    for _member in sorted(range(len(SETTINGS)), key=_scores.__getitem__):",
              "        if len(_best) < 2 and _holds(_conditions, _GUARDS[_member]):",
              "            _best.append(_member)",
              f"    _inside = _holds(_conditions, {program.domain!r})",
              "    _sure = len(_best) == 1 or (len(_best) > 1 and _scores[_best[1]] - _scores[_best[0]] >= LEAD)",
              "    return Choice(*(_best + [None, None])[:2], _sure and _inside, _inside)"]
    parts.append("_GUARDS = " + _listed(list(map(repr, program.guards))))
    return "\n\n".join(parts) + "\n\n\n" + "\n".join(lines) + "\n"


def _plain(lines: list[str]) -> str:
    return "\n".join(lines).replace("\\", "/").replace('"""', "'''")


def _listed(items: list[str]) -> str:
    return "(\n" + "".join(f"    {item},\n" for item in items) + ")" if items else "()"


class _Python(ast.NodeTransformer):
    """Expressions call the module's own functions."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        return ast.Call(ast.Name("_" + node.func.id), [self.visit(argument) for argument in node.args], [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        name = _CALLS.get(type(node.op))
        return ast.BinOp(left, node.op, right) if name is None else ast.Call(ast.Name(name), [left, right], [])


def _text(expression: Expression) -> str:
    return ast.unparse(_Python().visit(ast.parse(expression.text, mode="eval").body))
