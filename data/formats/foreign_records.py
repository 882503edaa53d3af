"""Foreign records: another tool's measurements of one kernel on one device, and the data set made from several of them.

The kernel is declared as `recorded.NAME`: its parameters have all values that any of the files lists, and its
constraints are the files' restrictions. Its problem is `recorded kernel=NAME size_x=...`, its device `recorded:DEVICE`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pandas as pd

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.arithmetic import LARGEST_NUMBER
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, Setting, are_whole, identity
from seqtune.kernels.kernel import is_setting as is_any_setting
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem

from ..dataset import ADDED, SCHEMA, Dataset
from ..record import Status
from .format import ImportResult

BACKEND = "recorded"
RUN = "recorded"
MOST_ROWS = 5_000_000
STATUSES = {  # the words of Kernel Tuner and of files made from its caches
    "ok": Status.CORRECT, "InvalidConfig": Status.CONSTRAINTS, "CompilationFailedConfig": Status.COMPILE,
    "RuntimeFailedConfig": Status.RUNTIME}
SHORTEST, LONGEST = 1e-20, 1e20  # milliseconds; other numbers are not times
LARGEST_SIZE = LARGEST_NUMBER  # of a problem along an axis; a larger number becomes a word
MOST_SETTING = 2**53  # the value of a parameter is smaller, so that models, which compute in floats, read it exactly
UNKNOWN_OUTCOME = "neither a time nor a failure that is known"  # why a configuration is left out
MOST_REASONS = 3  # in a message
_KINDS = {type(None): "null", list: "a list", dict: "an object", int: "a number of 2**53 or more",
          float: "a number of 2**53 or more"}
_AXES = ("size_x", "size_y", "size_z")


class ForeignRecord(NamedTuple):
    """The measurement of one configuration."""

    settings: tuple[Setting, ...]  # in the order of the parameters
    status: Status
    seconds: float  # the value by which the tool compares, usually the mean of its runs; infinite for a failure
    samples: int = 0
    spread: float = 0.0
    build_seconds: float = 0.0


@dataclass
class ForeignRecords:
    """The measurements of one kernel on one device in one file."""

    source: str  # the file's name
    kernel: str
    device: str
    parameters: dict[str, list[Setting]]  # name -> listed values; rows may have others
    sizes: Sequence[object] = ()  # the problem's sizes
    restrictions: Sequence[str] = ()
    model: str = ""  # the maker's name of the device
    vendor: str = ""
    facts: Device | None = None  # the device, if more than its name is known
    features: Mapping[str, Value] = field(default_factory=dict)  # features of the problem in addition to `sizes`
    rows: list[ForeignRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # reason -> rows
    path: str = ""  # the whole path, for formats whose files share names; empty for others

    def report(self) -> dict[str, Any]:
        """The report of this file that the user gets, as JSON; with the `problem` where `path` is given."""
        problem = {"problem": " ".join(f"{name}={value}" for name, value in self.features.items())} if self.path else {}
        return {"path": self.path or self.source, "device": _plain(self.device), "kernel": plain_word(self.kernel),
                **problem, "rows": len(self.rows), "failed": sum(row.status is not Status.CORRECT for row in self.rows),
                "parameters": len(self.parameters), "skipped": dict(sorted(self.skipped.items()))}


def is_setting(value: object) -> TypeGuard[Setting]:
    """Whether another tool's value may be a parameter's."""
    return is_any_setting(value) and (isinstance(value, str) or abs(value) < MOST_SETTING)


def setting(value: object) -> Setting:
    """Check another tool's parameter value.

    Raises FormatError if it is neither a word nor a finite number, or a number of 2**53 or more.
    """
    if is_setting(value):
        return value
    if isinstance(value, int | float):
        raise FormatError("a number of 2**53 or more is no value of a parameter")
    raise FormatError(f"{str(value)[:40]!r} is no value of a parameter")


def why_no_settings(values: Mapping[str, object]) -> str | None:
    """Why values by the parameter's name are no settings, with the name of the first such; None if all are some."""
    for name, value in values.items():
        if not is_setting(value):
            kind = _KINDS.get(type(value), f"a {type(value).__name__:.20}")
            return f"a configuration whose {name:.60} is {kind}, which no parameter can be"
    return None


def check_times(path: Path, rows: Sequence[ForeignRecord], skipped: Counter[str], count: int) -> None:
    """Raise FormatError, with the reasons, if none of the `count` configurations of a file has a time."""
    if any(row.status is Status.CORRECT for row in rows):
        return
    if not count:
        raise FormatError(f"{path} holds no configuration: nothing was measured")
    reasons = [f"{number} left out: {reason}" for reason, number in skipped.most_common(MOST_REASONS)]
    failed = [f"{len(rows)} failed"] if rows else []
    raise FormatError(f"{path} holds no time of its {count} configurations ({'; '.join([*reasons, *failed])})")


def as_listed(listed: Iterable[Setting]) -> Callable[[Setting], Setting]:
    """A function that gives a row's value the type in which a parameter lists it.

    A column of a table holds 1.0 where 1 and 1.5 are listed.
    """
    values = list(listed)
    equal: dict[Setting, Setting] = {}
    for value in values:
        equal.setdefault(value, value)
    if len(equal) == len(values):
        return lambda value: equal.get(value, value)
    exact = set(map(identity, values))
    return lambda value: value if identity(value) in exact else equal.get(value, value)


def version_of(values: Iterable[Setting]) -> int:
    """The version of a recorded kernel with these values: in version 1, fractions were words, booleans numbers."""
    return 1 if are_whole(values) else 2


def feature_value(value: Setting) -> int | str:
    """A setting as the feature of a problem: a whole number, or a word."""
    if isinstance(value, str):
        return plain_word(value)
    return int(value) if value == int(value) else repr(value)


def milliseconds(value: object) -> float:
    """Convert milliseconds to seconds; 0 if the value is not a time."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not SHORTEST < value < LONGEST:
        return 0.0
    return value * 1e-3


def import_result(files: Sequence[ForeignRecords], tool: str) -> ImportResult:
    """The data set of all files, with a report of each. Raises FormatError."""
    data = to_dataset(files, tool)  # before the reports, which count the rows skipped here
    return ImportResult(data, [file.report() for file in files])


def single_name(devices: Sequence[str | Device]) -> str | None:
    """The name of the only device that the user gave; None if there is none: then the files' names count."""
    return next((device.name if isinstance(device, Device) else device for device in devices), None)


def to_dataset(files: Sequence[ForeignRecords], tool: str) -> Dataset:
    """Make one data set of all files. If a configuration occurs twice, the first one counts; the other is skipped.

    Raises FormatError if two files disagree about their kernel.
    """
    kernels: dict[str, Kernel] = {}
    devices: dict[str, Device] = {}
    problems: dict[str, Problem] = {}
    frames = []
    for file in files:
        if len(file.rows) > MOST_ROWS:
            raise FormatError(f"{file.source} has more than {MOST_ROWS} configurations")
        name = plain_word(file.kernel)
        kernels[name] = _kernel(name, file, kernels.get(name))
    for file in files:
        name = plain_word(file.kernel)
        device = file.facts or recorded_device(file.device, file.vendor, file.model)
        problem = recorded_problem(name, file.sizes, file.features)
        devices[device.key], problems[problem.key] = device, problem
        frames.append(_frame(file, kernels[name], device.key, problem.key))
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=SCHEMA.names)
    first = ~rows.duplicated(["device", "problem", "kernel", "configuration"]).to_numpy()
    ends = np.cumsum([len(file.rows) for file in files], dtype=int)
    for file, is_first in zip(files, np.split(first, ends[:-1]), strict=False):
        if not is_first.all():
            file.rows = list(compress(file.rows, is_first))
            file.skipped["a repeated configuration"] += int((~is_first).sum())
    rows = rows[first].reset_index(drop=True)
    sources = ", ".join(dict.fromkeys(file.source for file in files))
    return Dataset(rows, devices, problems, provenance={"source": f"{tool}: {sources}"},
                   kernels={kernel.name: kernel for kernel in kernels.values()})


def _plain(name: str) -> str:
    """The name, with every run of characters that a name here cannot contain replaced by a hyphen."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "unnamed"


def plain_word(name: str, prefix: str = "kernel") -> str:
    """The name as a plain word; a prefix keeps it from being read as a number or as unknown."""
    plain = _plain(name)
    return f"{prefix}-{plain}" if re.fullmatch(r"(?i:unknown)|\.?[0-9][0-9.eE+-]*", plain) else plain


def _writable(text: str) -> str:
    """The text with `?` for lone surrogates, which JSON can contain but UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _kernel(name: str, file: ForeignRecords, before: Kernel | None) -> Kernel:
    """The declaration of the kernel: that of earlier files (`before`) with this file's values added."""
    constraints = tuple(_constraints(file))
    if before is not None:
        if set(before.by_name) != set(file.parameters) or before.constraints != constraints:
            raise FormatError(f"{file.source} declares another kernel {name} than the files before it")
        listed = {parameter.name: list(parameter.values) for parameter in before.parameters}
    else:
        listed = {parameter: [] for parameter in file.parameters}
    if not file.parameters:
        raise FormatError(f"{file.source} names no parameter")
    columns = dict(zip(file.parameters, zip(*(row.settings for row in file.rows), strict=True), strict=False))
    for parameter, values in listed.items():
        values += [*file.parameters[parameter], *columns.get(parameter, ())]
    try:
        parameters = tuple(Parameter(_identifier(parameter), _ordered(values)) for parameter, values in listed.items())
    except MisuseError as error:
        raise FormatError(f"{file.source}: {error}") from None
    version = max(version_of(parameter.values) for parameter in parameters)
    if before is not None:
        return replace(before, parameters=parameters, version=version)
    backend = file.facts.backend if file.facts is not None else BACKEND
    return Kernel(f"{BACKEND}.{name}", "recorded", (backend,), parameters, constraints, (), f"recorded: {file.kernel}",
                  (Constraint.of(f"kernel == {name!r}", f"it is the problem of another kernel than {name}"),),
                  version=version)


def _constraints(file: ForeignRecords) -> Iterable[Constraint]:
    problem = recorded_problem(plain_word(file.kernel), file.sizes, file.features)
    names = {*file.parameters, *problem.names()}
    for text in file.restrictions:
        try:
            constraint = Constraint.of(text, "a restriction of the kernel's author")
        except MisuseError as error:
            raise FormatError(f"{file.source}: {error}") from None
        unknown = next((name for name in constraint.expression.names if name not in names), None)
        if unknown is not None:
            raise FormatError(f"{file.source}: {unknown[:40]} is no parameter, in the restriction {text!r:.80}")
        yield constraint


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name):
        raise FormatError(f"{name[:40]!r} is no name of a parameter")
    return name


def _ordered(values: Sequence[Setting]) -> tuple[Setting, ...]:
    """The distinct values; in ascending order if all are numbers, else in the given order."""
    distinct = list({identity(value): value for value in values}.values())
    numbers = [value for value in distinct if not isinstance(value, str)]
    return tuple(sorted(numbers)) if len(numbers) == len(distinct) else tuple(distinct)


def recorded_device(name: str, vendor: str = "", model: str = "") -> Device:
    """The device of another tool's records, of which only names are known."""
    return Device(f"{BACKEND}:{_plain(name)}", BACKEND, _writable(vendor).lower() or "unknown", "none",
                  model=_writable(model))


def recorded_problem(kernel: str, sizes: Sequence[object], features: Mapping[str, Value]) -> Problem:
    """The problem of a kernel, given by its plain name, from its sizes along the axes and further features."""
    named: dict[str, Value] = {**features, "kernel": kernel}
    whole_sizes = [size for size in sizes
                   if isinstance(size, int) and not isinstance(size, bool) and abs(size) <= LARGEST_SIZE]
    if len(whole_sizes) == len(sizes) <= len(_AXES):
        named |= zip(_AXES, whole_sizes, strict=False)
    else:
        named["size"] = _plain(" ".join(map(str, sizes)))[:200]
    return Problem.make("recorded", **named)


def _frame(file: ForeignRecords, kernel: Kernel, device: str, problem: str) -> pd.DataFrame:
    """The rows of a data set, with the parameters in the kernel's order, which may differ from the file's."""
    columns: list[Sequence[Any]] = list(zip(*file.rows, strict=True)) or [()] * len(ForeignRecord._fields)
    settings, statuses, seconds, samples, spread, build = columns
    listed, names = list(file.parameters), list(kernel.by_name)
    order = [listed.index(name) for name in names]
    frame: pd.DataFrame = pd.DataFrame({
        "device": device, "problem": problem, "kernel": kernel.name, "kernel_version": np.int32(kernel.version),
        "configuration": [json.dumps({name: values[index] for name, index in zip(names, order, strict=True)},
                                     separators=(",", ":")) for values in settings],
        "status": [status.value for status in statuses], "seconds": np.asarray(seconds, np.float32),
        "spread": np.asarray(spread, np.float32), "samples": np.asarray(samples, np.int32),
        "error": np.float32("nan"), "build_seconds": np.asarray(build, np.float32), "run": RUN, "toolchain": "",
        **ADDED}, index=range(len(file.rows)))[SCHEMA.names]
    return frame
