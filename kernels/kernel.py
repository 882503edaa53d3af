"""Kernel: the declaration of a kernel family and its tuning parameters. Configuration: one value for each of them.

A declaration contains the problems that the family solves, its parameters in decoding order, the constraints between
them (each with a reason), derived quantities, and a preferred default. It contains no code: the code is its
Implementation (`seqtune.kernels.launches.implementation`), and recorded or foreign kernels have none.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard

from seqtune.errors import ConfigurationError, KernelError

from .arithmetic import LARGEST_NUMBER
from .devices.device import Device
from .expression import Expression
from .problem import NameValues, Problem, names_of

Setting: TypeAlias = int | float | bool | str  # the value of one tuning parameter; a float is finite

NAME = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_.<>-]+")  # the name of a family: library.family
MOST_VALUES = 32_000  # values of one parameter: the rows of a space hold value indices in 16 bits


def identity(value: object) -> Hashable:
    """The key by which a setting is looked up: Python's own keys take 1, 1.0 and True, or 0.0 and -0.0, for the same.

    Whole numbers and words are their own keys.
    """
    kind = type(value)
    return value if kind is int or kind is str else (kind, repr(value))


def is_setting(value: object) -> TypeGuard[Setting]:
    """Whether a value may be a parameter's: a word, a boolean, or a number of at most 64 bits, so a finite one."""
    return isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= LARGEST_NUMBER)


def are_whole(values: Iterable[Setting]) -> bool:
    """Whether all values are whole numbers or words, which is all that parameters could have before version 0.3."""
    return all(type(value) in (int, str) for value in values)


def shown_setting(value: Setting) -> str:
    """A setting as people and JSON have it: a boolean is `true` or `false`, a word stands without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def source_text(value: Setting) -> str:
    """A setting as sources and command lines have it: a boolean is 1 or 0, and a fraction all of its digits."""
    return str(int(value)) if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tuning parameter with all values that it may have for any problem; constraints narrow them for one problem."""

    name: str
    values: tuple[Setting, ...]
    meaning: str = ""
    indices: Mapping[Hashable, int] = field(init=False, hash=False, repr=False)  # by `identity`; compared, too

    def __post_init__(self) -> None:
        if not all(map(is_setting, self.values)):
            raise KernelError(f"parameter {self.name!r:.40} has a number of more than 64 bits, or one that is not "
                              "finite")
        object.__setattr__(self, "indices", {identity(value): index for index, value in enumerate(self.values)})
        if not 0 < len(self.values) <= MOST_VALUES or len(self.indices) != len(self.values):
            raise KernelError(f"parameter {self.name!r:.40} needs 1 to {MOST_VALUES} different values")

    def __contains__(self, value: object) -> bool:
        return identity(value) in self.indices

    def index(self, value: object) -> int:
        """The index of a value among `values`. Raises KeyError if it is none."""
        return self.indices[identity(value)]

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers or booleans."""
        return not any(isinstance(value, str) for value in self.values)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition between parameters, problem and device, checked as soon as its last name has a value."""

    expression: Expression
    reason: str  # shown to the user when a configuration is refused

    @classmethod
    def of(cls, expression: str, reason: str) -> Constraint:
        """Parse a constraint from text. Raises ExpressionError."""
        return cls(Expression(expression), reason)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One value for every parameter of the named kernel, in the kernel's order."""

    kernel: str
    settings: tuple[tuple[str, Setting], ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Configuration) and self.kernel == other.kernel and self.settings == other.settings
            and all(identity(mine) == identity(theirs) for (_, mine), (_, theirs) in zip(
                self.settings, other.settings, strict=True)))

    @classmethod
    def of(cls, kernel: str, settings: Mapping[str, Setting] | Iterable[tuple[str, Setting]]) -> Configuration:
        """Make a configuration from values by name, which must be in the order of the kernel's parameters."""
        return cls(kernel, tuple(dict(settings).items()))

    def __getitem__(self, name: str) -> Setting:
        for key, value in self.settings:
            if key == name:
                return value
        raise KeyError(name)

    def number(self, name: str) -> int:
        """The value of a parameter of whole numbers. Raises ConfigurationError if it is anything else."""
        value = self[name]
        if type(value) is not int:
            raise ConfigurationError(f"{self.kernel}: {name}={value!r:.40} is not a whole number")
        return value

    @property
    def pairs(self) -> frozenset[tuple[str, Hashable]]:
        """The settings by name and `identity`: the same set for the same settings in any order."""
        return frozenset((name, identity(value)) for name, value in self.settings)

    @property
    def key(self) -> str:
        """The settings as compact JSON: the same string for the same configuration."""
        return json.dumps(dict(self.settings), separators=(",", ":"))

    def brief(self) -> str:
        """The settings as one line of text: `vector=16 tile_w=14 share=0.5 packed=true`."""
        return " ".join(f"{name}={shown_setting(value)}" for name, value in self.settings)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel family. The valid configuration nearest to `default`, which need not be valid, is the safe default."""

    name: str  # unique: "llvm.direct"
    operation: str
    backends: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...]
    default: tuple[tuple[str, Setting], ...]
    meaning: str = ""
    solves: tuple[Constraint, ...] = ()  # over names of problem and device only
    derived: tuple[tuple[str, Expression], ...] = ()  # named quantities that constraints and models may use
    version: int = 1  # increase it when the generated code changes: records of other versions are ignored
    prior: tuple[Constraint, ...] = ()  # further constraints, of the kernel's own tuner; not needed for validity
    implementation: object = None  # its code, or the code's "module:attribute" (see `implementation_of`); None: none
    default_for: Expression | None = None  # holds for the problems whose task takes its safe default from this kernel
    # Of declared kernels: the digests by file or key of all that `version` covers, and the version that 0.2.0 gave.
    parts: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    former_versions: tuple[int, ...] = field(default=(), compare=False, repr=False)
    by_name: Mapping[str, Parameter] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, repr=False)  # many caches have kernels as keys; compared, since it tells 1 from 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {parameter.name: parameter for parameter in self.parameters})
        # of the few fields that differ between kernels; the same in all processes, which may send each other kernels
        few = f"{self.name} {self.version} {len(self.constraints)} {len(self.derived)} {self.default}"
        object.__setattr__(self, "_hash", zlib.crc32(few.encode()))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, *, name: str, operation: str, meaning: str, parameters: Sequence[Parameter],
           derived: Iterable[tuple[str, str]] = (), solves: Iterable[tuple[str, str]] = (),
           constraints: Iterable[tuple[str, str]] = (), prior: Iterable[tuple[str, str]] = (),
           default: Mapping[str, Setting], version: int = 1, implementation: object = None,
           backends: Sequence[str] = (), default_for: str | None = None) -> Kernel:
        """Declare a kernel family. Every declaration gives the arguments in this order.

        `derived` are (name, expression); `solves`, `constraints` and `prior` are (expression, reason): all texts.
        The default of `backends` is the part of the name before the dot. `default_for` is for libraries that choose
        between their kernels by the problem: it names features and facts of devices. Raises ExpressionError.
        """
        conditions = {field: tuple(Constraint.of(text, reason) for text, reason in given)
                      for field, given in (("solves", solves), ("constraints", constraints), ("prior", prior))}
        return cls(name, operation, tuple(backends) or (name.partition(".")[0],), tuple(parameters),
                   conditions["constraints"], tuple(default.items()), meaning, conditions["solves"],
                   tuple((name, Expression(text)) for name, text in derived), version, conditions["prior"],
                   implementation, None if default_for is None else Expression(default_for))

    def misfit(self, configuration: Configuration) -> str | None:
        """The reason why a configuration is not one value for each parameter of this kernel, or None if it is."""
        if configuration.kernel != self.name:
            return f"it is a configuration of {configuration.kernel}, not of {self.name}"
        given = dict(configuration.settings)
        for parameter in self.parameters:
            if parameter.name not in given:
                return f"{parameter.name} is missing"
            if given.pop(parameter.name) not in parameter:
                listed = ", ".join(map(shown_setting, parameter.values[:30]))
                return f"{parameter.name}={configuration[parameter.name]!r:.40} is not one of {listed}"
        if given:
            return f"{self.name} has no parameter {next(iter(given))!r:.40}"
        return None if len(configuration.settings) == len(self.parameters) else "a parameter is given twice"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        """The reason why this kernel does not solve the problem on the device, or None if it does."""
        if problem.type != self.operation:
            return f"{self.name} solves {self.operation}, not {problem.type}"
        if device.backend not in self.backends:
            return f"{self.name} runs on {', '.join(self.backends)}, not on {device.backend}"
        names = names_of(problem, device)
        if self not in names.reasons:
            names.reasons[self] = self._unmet(names)
        return names.reasons[self]

    def _unmet(self, names: NameValues) -> str | None:
        """The first condition that does not hold or whose names are unknown, as a reason; None if there is none."""
        for condition in self.solves:
            for name in condition.expression.names:
                if names.get(name) is None:
                    return f"{self.name} needs to know {name}"
            if not names.satisfy(condition.expression):
                return f"{self.name}: {condition.reason}"
        for name in self.names_read():
            if names.get(name) is None:
                return f"{self.name} needs to know {name}"
        return None

    def is_for(self, device: Device) -> bool:
        """Whether the kernel solves any problem on the device, by the conditions that name facts of devices alone."""
        names = device.names()
        return device.backend in self.backends and all(
            condition.expression(names) for condition in self.solves if names.keys() >= set(condition.expression.names))

    def indices(self, settings: Iterable[tuple[str, Setting]]) -> list[int]:
        """The index of each setting among its parameter's values. Settings are in the kernel's order."""
        return [parameter.index(value) for parameter, (_, value) in zip(self.parameters, settings, strict=True)]

    def split_derived(self) -> tuple[tuple[tuple[str, Expression], ...], tuple[str, ...]]:
        """Split the derived quantities: those that depend only on problem and device, and the names read by the rest.

        The second part lists the names of problem, device and first part that the constraints and the other derived
        quantities read. Their values are the identity of a space: problems and devices with equal values share rows.
        """
        return _split_derived(self)

    def names_read(self) -> tuple[str, ...]:
        """The names of problem and device whose values must be known to build a space."""
        return _names_read(self)


@lru_cache(maxsize=1024)
def _split_derived(kernel: Kernel) -> tuple[tuple[tuple[str, Expression], ...], tuple[str, ...]]:
    own = set(kernel.by_name)
    resolved = []
    needed: dict[str, None] = {}
    for name, expression in kernel.derived:
        if own.isdisjoint(expression.names):
            resolved.append((name, expression))
        else:
            own.add(name)
            needed.update(dict.fromkeys(expression.names))
    for constraint in kernel.constraints:
        needed.update(dict.fromkeys(constraint.expression.names))
    return tuple(resolved), tuple(name for name in needed if name not in own)


@lru_cache(maxsize=1024)
def _names_read(kernel: Kernel) -> tuple[str, ...]:
    resolved, identity = kernel.split_derived()
    derived = {name for name, _ in resolved}
    read = [name for _, expression in resolved for name in expression.names]
    return tuple(dict.fromkeys(name for name in (*read, *identity) if name not in derived))


def quantities(derived: Iterable[tuple[str, Expression]], problem: Problem, device: Device,
               configuration: Configuration) -> dict[str, Any]:
    """The values of all names that expressions of a kernel may read, for one configuration. Raises ExpressionError.

    These are facts of the device, features and sizes of the problem, parameters, and the kernel's `derived` quantities.
    """
    values: dict[str, Any] = {**names_of(problem, device), **dict(configuration.settings)}
    for name, expression in derived:
        values[name] = expression(values)
    return values
