"""Declaration: kernel families as JSON, as `seqtune kernels --json` prints them, and read from a file.

Recorded and foreign kernels are declared in files: parameters, constraints, derived quantities and default make a
search space like any other. Implementations never come from a file, so a kernel read from one cannot be run.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqtune.errors import FormatError, MisuseError, one_line

from .expression import Expression
from .files import read_bounded
from .kernel import NAME, Constraint, Kernel, Parameter, Setting, shown_setting
from .operations.table import operation

LARGEST_FILE = 10_000_000  # bytes


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Condition(_Part):
    expression: str
    reason: str = Field(min_length=1)


class _Quantity(_Part):
    name: str
    expression: str


class _Parameter(_Part):
    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z_0-9]*$")
    values: list[Setting]
    meaning: str = ""


class _Declaration(_Part):
    name: str = Field(pattern=f"^{NAME.pattern}$")
    problem_type: str
    backends: list[str] = Field(min_length=1)
    parameters: list[_Parameter] = Field(min_length=1)
    default: dict[str, Setting]
    version: int = Field(default=1, ge=1)
    meaning: str = ""
    solves: list[_Condition] = []
    derived: list[_Quantity] = []
    constraints: list[_Condition] = []
    prior: list[_Condition] = []
    default_for: str | None = None
    includes: str | None = None  # printed for people, not read


class _File(_Part):
    kernels: list[_Declaration] = Field(min_length=1)
    libraries: list[object] = []  # printed for people, not read


def to_json(kernel: Kernel) -> dict[str, object]:
    """A kernel family as a JSON object, without its implementation."""
    return {
        "name": kernel.name, "problem_type": kernel.operation, "backends": list(kernel.backends),
        "version": kernel.version, "meaning": kernel.meaning,
        "solves": _conditions(kernel.solves),
        "parameters": [{"name": parameter.name, "values": list(parameter.values), "meaning": parameter.meaning}
                       for parameter in kernel.parameters],
        "derived": [{"name": name, "expression": expression.text} for name, expression in kernel.derived],
        "constraints": _conditions(kernel.constraints),
        **({"prior": _conditions(kernel.prior)} if kernel.prior else {}),
        "default": dict(kernel.default),
        **({} if kernel.default_for is None else {"default_for": kernel.default_for.text})}


def _conditions(constraints: Iterable[Constraint]) -> list[dict[str, str]]:
    return [{"expression": constraint.expression.text, "reason": constraint.reason} for constraint in constraints]


def from_json(declaration: Mapping[str, object]) -> Kernel:
    """The inverse of `to_json`. Raises FormatError."""
    try:
        return _kernel(_Declaration.model_validate(declaration))
    except ValidationError as error:
        raise FormatError(_first(error)) from None


def read_kernels(path: str | Path) -> tuple[Kernel, ...]:
    """The kernels of a JSON file, `{"kernels": [...]}`. Raises FormatError."""
    content = read_bounded(Path(path), LARGEST_FILE).removeprefix(BOM_UTF8)
    try:
        return tuple(map(_kernel, _File.model_validate_json(content).kernels))
    except ValidationError as error:
        raise FormatError(f"{path} does not declare kernels: {_first(error)}") from None
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _kernel(declared: _Declaration) -> Kernel:
    try:
        operation(declared.problem_type)
        names = [*(parameter.name for parameter in declared.parameters),
                 *(quantity.name for quantity in declared.derived)]
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise FormatError(f"{declared.name} declares {twice!r:.40} twice")
        parameters = {parameter.name: Parameter(parameter.name, tuple(parameter.values), parameter.meaning)
                      for parameter in declared.parameters}
        for name, value in declared.default.items():
            if name not in parameters or value not in parameters[name]:
                raise FormatError(f"{declared.name}: the default {name[:40]}={shown_setting(value):.40} is no value of "
                                  "a parameter")
        solves, constraints, prior = (
            tuple(Constraint.of(condition.expression, condition.reason) for condition in conditions)
            for conditions in (declared.solves, declared.constraints, declared.prior))
        derived = tuple((quantity.name, Expression(quantity.expression)) for quantity in declared.derived)
        default_for = None if declared.default_for is None else Expression(declared.default_for)
    except MisuseError as error:
        raise error if isinstance(error, FormatError) else FormatError(f"{declared.name}: {error}") from None
    return Kernel(declared.name, declared.problem_type, tuple(declared.backends), tuple(parameters.values()),
                  constraints, tuple(declared.default.items()), declared.meaning, solves, derived, declared.version,
                  prior, default_for=default_for)


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "missing" and first["loc"] == ("kernels",):
        return (f"it has {one_line(', '.join(first['input']), 100) or 'no keys'}, and such a file has \"kernels\" "
                "(a T1 file has ConfigurationSpace and KernelSpecification)")
    location = ".".join(map(str, first["loc"]))
    return f"{location}: {first['msg']}"[:300] if location else str(first["msg"])[:300]
