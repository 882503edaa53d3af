"""Random spaces of integers, fractions, booleans and words: ours, Kernel Tuner's, and Python's over the full product.

Python's evaluation of the restrictions is the truth; a configuration for which one divides by zero is not valid. What
we refuse must say why; a space that differs in silence fails. Kernel Tuner's differences are counted.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, identity
from seqtune.kernels.libraries.t1.value_lists import value_list
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from tests.peers.verdicts import Verdicts

DEVICE = Device("recorded:none", "recorded", "none", "none")
SPACES = 500
LEAST = 370  # spaces with the right configurations; the others are refused, by us or by Python
REASONS = ("arithmetic on words", "too large", "a shift outside", "cannot evaluate", "`in` needs", "is not a key",
           "is not allowed", "root of a negative number", "needs to know missing")
VALUES: Sequence[Sequence[Any]] = (
    (0, 1, 2, 3, 4, 6, 8, 16), (1, 2, 4, 8), (0, 1), (-2, -1, 3, 5), (32, 64, 128), (2**40, 3, 2**53 + 1),
    (0.5, 1.5, 2.0, 2.45, -4.4), (0.1, 0.2, 0.3), (1.0, 2.0, 4.0), (0.0, 0.25),
    (1, 1.5, 2, 3), (0, 0.5, True), (1, 1.0, True), (True, False), (False, True, 2),
    ("a", "b", "abc"), ("", "row", "col"), ("1", 1, 1.0), ("a", 2, 0.5, True))
NAMES = ("x", "y", "z", "u")


class Writer:
    """Writes random restrictions over parameters; most, but not all of them, suit the kinds of the values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.parameters = {name: list(self.random.choice(VALUES)) for name in NAMES[:self.random.randint(2, 4)]}
        for values in self.parameters.values():
            self.random.shuffle(values)
        self.words = [name for name, values in self.parameters.items() if any(isinstance(v, str) for v in values)]
        self.numbers = [name for name in self.parameters if name not in self.words]

    def restrictions(self) -> list[str]:
        """One to three restrictions; now and then one that is refused."""
        texts = [self.truth(3) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.04:
            texts.append(self.random.choice(["missing > 1", "(lambda: 1)() == 1", "len('a') == 1"]))
        return texts

    def pick(self, *writers: Callable[[int], str], depth: int) -> str:
        return self.random.choice(writers)(depth - 1)

    def number(self, depth: int) -> str:
        """A number: a parameter, a constant, or an operation."""
        if depth <= 0 or self.random.random() < 0.3:
            names = self.numbers if self.random.random() < 0.97 else list(self.parameters)
            return self.random.choice([*names, *names, *names, str(self.random.randint(0, 9)),
                                       self.random.choice(["0.5", "1.5", "2.0", "True", "64", "1e-3"])])
        return self.pick(self._arithmetic, self._arithmetic, self._arithmetic, self._choice, self._look_up, self._call,
                         self._minus, self.truth, self._either, depth=depth)

    def _arithmetic(self, depth: int) -> str:
        operator = self.random.choice(["+", "-", "*", "/", "//", "%"] * 3 + ["**", "<<", ">>", "&", "|", "^"])
        right = str(self.random.randint(0, 4)) if operator in ("**", "<<", ">>") else self.number(depth)
        return f"({self.number(depth)} {operator} {right})"

    def _choice(self, depth: int) -> str:
        return f"({self.number(depth)} if {self.truth(depth)} else {self.number(depth)})"

    def _look_up(self, depth: int) -> str:
        name = self.random.choice(list(self.parameters))
        values = self.parameters[name]
        entries = ", ".join(f"{value!r}: {self.number(0)}" for value in values[:self.random.randint(1, len(values))])
        guard = self.random.choice([f" if {self.truth(depth)} else {self.number(0)}", ""])
        guard = f" if {name} in {tuple(values[:len(entries.split(', '))])!r} else 7" if guard else guard
        return f"({{{entries}}}[{name}]{guard})"

    def _call(self, depth: int) -> str:
        name = self.random.choice(["min", "max", "abs"])
        others = "" if name == "abs" else f", {self.number(depth)}"
        return f"{name}({self.number(depth)}{others})"

    def _minus(self, depth: int) -> str:
        return f"(-{self.number(depth)})"

    def _either(self, depth: int) -> str:
        return f"({self.number(depth)} {self.random.choice(['and', 'or'])} {self.number(depth)})"

    def truth(self, depth: int) -> str:
        """A condition."""
        if depth <= 0:
            return self._order(0)
        return self.pick(self._order, self._order, self._order, self._chain, self._both, self._both, self._among,
                         self._words, self._tuples, self._not, self._guarded, depth=depth)

    def _order(self, depth: int) -> str:
        operator = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"{self.number(depth)} {operator} {self.number(depth)}"

    def _chain(self, depth: int) -> str:
        first, second = self.random.choices(["<", "<=", "==", "!=", ">"], k=2)
        return f"({self.number(depth)} {first} {self.number(depth)} {second} {self.number(depth)})"

    def _both(self, depth: int) -> str:
        return f"({self.truth(depth)} {self.random.choice(['and', 'or'])} {self.truth(depth)})"

    def _among(self, depth: int) -> str:
        name = self.random.choice(list(self.parameters))
        values = self.random.choices([*self.parameters[name], 1, "a", 0.5], k=self.random.randint(1, 4))
        listed = "[" + ", ".join(map(repr, values)) + "]" if self.random.random() < 0.5 else repr(tuple(values))
        return f"({name} {self.random.choice(['in', 'not in'])} {listed})"

    def _words(self, depth: int) -> str:
        if not self.words:
            return self._order(depth)
        name = self.random.choice(self.words)
        word = repr(self.random.choice(self.parameters[name]))
        return self.random.choice([f"({name} == {word})", f"({name} != {word})", f"({name} or {self.number(0)})",
                                   f"({name} < 'b')", f"('a' in {name})", f"({name} == {self.number(0)})"])

    def _tuples(self, depth: int) -> str:
        operator = self.random.choice(["==", "!=", "<", ">="])
        return f"(({self.number(depth)}, {self.number(0)}) {operator} ({self.number(depth)}, {self.number(0)}))"

    def _not(self, depth: int) -> str:
        return f"(not {self.truth(depth)})"

    def _guarded(self, depth: int) -> str:
        divisor = self.random.choice(self.numbers or list(self.parameters))
        return f"({divisor} == 0 or {self.number(depth)} % {divisor} == {self.number(0)})"


Rows = set[tuple[Any, ...]]


def rows(configurations: Sequence[Sequence[Any]]) -> Rows:
    """Configurations as a set in which 1, 1.0 and True differ."""
    return {tuple(map(identity, configuration)) for configuration in configurations}


def python_rows(parameters: dict[str, list[Any]], restrictions: Sequence[str]) -> Rows | None:
    """The configurations for which Python finds all restrictions true; None if one raises where no other excludes."""
    codes = [compile(text, "restriction", "eval") for text in restrictions]
    known = {"__builtins__": {}, "min": min, "max": max, "abs": abs}
    valid = []
    for values in itertools.product(*parameters.values()):
        names = dict(zip(parameters, values, strict=True))
        verdicts = [_verdict(code, {**known, **names}) for code in codes]
        if None in verdicts and False not in verdicts:
            return None
        if all(verdicts):
            valid.append(values)
    return rows(valid)


def _verdict(code: Any, names: dict[str, Any]) -> bool | None:
    """Whether a restriction holds; None if it raises."""
    try:
        value = eval(code, names)
    except ZeroDivisionError:
        return False
    except (TypeError, ValueError, KeyError, ArithmeticError, NameError, AttributeError):
        return None
    return None if isinstance(value, complex) else bool(value)


def our_rows(parameters: dict[str, list[Any]], restrictions: Sequence[str]) -> Rows:
    """The configurations of our space. Raises a SeqtuneError for what is refused."""
    kernel = Kernel("recorded.random", "recorded", ("recorded",),
                    tuple(Parameter(name, tuple(value_list(repr(values)))) for name, values in parameters.items()),
                    tuple(Constraint.of(text, text) for text in restrictions), ())
    space = SearchSpace(kernel, Problem.make("recorded", kernel="random"), DEVICE)
    return rows([[value for _, value in configuration.settings] for configuration in space])


def their_rows(parameters: dict[str, list[Any]], restrictions: Sequence[str]) -> Rows:
    """The configurations of Kernel Tuner's space."""
    from kernel_tuner.searchspace import Searchspace

    return rows(Searchspace(parameters, list(restrictions), 1024).list)


def fault(seed: int, counts: Counter[str]) -> str:
    """The fault of a random space; empty if it has Python's configurations. Raises SeqtuneError if it is refused.

    `counts` gets the refusals of spaces for which Python has an answer, and the verdicts of Kernel Tuner.
    """
    writer = Writer(seed)
    parameters, restrictions = writer.parameters, writer.restrictions()
    truth = python_rows(parameters, restrictions)
    try:
        ours = our_rows(parameters, restrictions)
    except SeqtuneError as error:
        counts["refused where Python has an answer"] += truth is not None
        if "\n" not in str(error) and any(reason in str(error) for reason in REASONS):
            raise
        return f"refused without a known reason: {error}"
    if ours != truth:
        python = "raises" if truth is None else len(truth)
        return f"{parameters} {restrictions}: Python: {python}, ours: {len(ours)}"
    try:
        theirs = their_rows(parameters, restrictions)
    except Exception as error:  # whatever Kernel Tuner raises
        counts[f"Kernel Tuner raises {type(error).__name__}"] += 1
    else:
        counts["as Kernel Tuner" if theirs == ours else "Kernel Tuner differs from Python"] += 1
    return ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of the restrictions that Python compiles
def test_no_random_space_differs_in_silence(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("kernel_tuner")
    verdicts, counts = Verdicts(), Counter[str]()
    for seed in range(SPACES):
        verdicts.judge(f"space {seed}", partial(fault, seed, counts))
    print(counts)
    verdicts.check(LEAST, request)
