"""Recorded: what another tool measured of one kernel on one device, and the data set that several of these make.

The kernel becomes a declared one, `recorded.NAME`: parameters with all values that any of the files lists, and the
restrictions where a file states them. Its problem is `recorded kernel=NAME size_x=...`, its device `recorded:DEVICE`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, Setting
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem

from ..dataset import SCHEMA, Dataset
from ..record import Status
from .format import Reading

BACKEND = "recorded"
RUN = "recorded"
MOST_ROWS = 5_000_000
STATUSES = {  # Kernel Tuner's words, and those of the files that were made of its caches
    "ok": Status.CORRECT, "InvalidConfig": Status.CONSTRAINTS, "CompilationFailedConfig": Status.COMPILE,
    "RuntimeFailedConfig": Status.RUNTIME}
SHORTEST, LONGEST = 1e-20, 1e20  # milliseconds; what is beyond is no time
LARGEST_SIZE = 2**63 - 1  # of a problem, along an axis; a larger one is a word
_AXES = ("size_x", "size_y", "size_z")


class Row(NamedTuple):
    """One configuration."""

    settings: tuple[Setting, ...]  # in the order of the parameters
    status: Status
    seconds: float  # what that tool compares by, mostly the mean of its runs; infinite for a failure
    samples: int = 0
    spread: float = 0.0
    build_seconds: float = 0.0


@dataclass
class Recorded:
    """One kernel on one device, as one file tells it."""

    source: str
    kernel: str
    device: str
    parameters: dict[str, list[Setting]]  # name -> values listed; rows may hold others
    sizes: Sequence[object] = ()  # of the problem
    restrictions: Sequence[str] = ()
    model: str = ""  # the device as its maker calls it
    vendor: str = ""
    rows: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # reason -> rows

    def report(self) -> dict[str, Any]:
        """What a user reads of it."""
        return {"path": self.source, "device": _plain(self.device), "kernel": _word(self.kernel),
                "rows": len(self.rows), "failed": sum(row.status is not Status.CORRECT for row in self.rows),
                "parameters": len(self.parameters), "skipped": dict(sorted(self.skipped.items()))}


def is_setting(value: object) -> bool:
    """Whether `setting` takes it."""
    return isinstance(value, bool | int | float | str)


def setting(value: object) -> Setting:
    """A parameter's value of another tool: truths and whole numbers as numbers, what else is no word as its text."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, str):
        return value
    raise FormatError(f"{str(value)[:40]!r} is no value of a parameter")


def milliseconds(value: object) -> float:
    """Milliseconds as seconds; 0 where it is no time."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not SHORTEST < value < LONGEST:
        return 0.0
    return value * 1e-3


def reading(found: Sequence[Recorded], tool: str) -> Reading:
    """The data set of all of them, with their reports. Raises FormatError."""
    data = to_dataset(found, tool)  # before the reports, which say what it skipped
    return Reading(data, [one.report() for one in found])


def named(devices: Sequence[str | Device]) -> str | None:
    """The name of the only device; None where the files name theirs."""
    return next((device.name if isinstance(device, Device) else device for device in devices), None)


def to_dataset(found: Sequence[Recorded], tool: str) -> Dataset:
    """One data set of all of them. Of what is told twice the first counts; the rest is moved to `skipped`.

    Raises FormatError where two disagree about their kernel.
    """
    kernels: dict[str, Kernel] = {}
    devices: dict[str, Device] = {}
    problems: dict[str, Problem] = {}
    parts = []
    for one in found:
        if len(one.rows) > MOST_ROWS:
            raise FormatError(f"{one.source} has more than {MOST_ROWS} configurations")
        name = _word(one.kernel)
        kernels[name] = _kernel(name, one, kernels.get(name))
        device = Device(f"{BACKEND}:{_plain(one.device)}", BACKEND, _writable(one.vendor).lower() or "unknown", "none",
                        model=_writable(one.model))
        problem = _problem(name, one.sizes)
        devices[device.key], problems[problem.key] = device, problem
        parts.append(_frame(one, kernels[name], device.key, problem.key))
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=SCHEMA.names)
    first = ~rows.duplicated(["device", "problem", "kernel", "configuration"]).to_numpy()
    ends = np.cumsum([len(one.rows) for one in found], dtype=int)
    for one, kept in zip(found, np.split(first, ends[:-1]), strict=False):
        if not kept.all():
            one.rows = list(compress(one.rows, kept))
            one.skipped["a configuration that was told before"] += int((~kept).sum())
    rows = rows[first].reset_index(drop=True)
    sources = ", ".join(dict.fromkeys(one.source for one in found))
    return Dataset(rows, devices, problems, provenance={"source": f"{tool}: {sources}"},
                   kernels={kernel.name: kernel for kernel in kernels.values()})


def _plain(name: str) -> str:
    """The name without what a word of ours cannot hold."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "unnamed"


def _word(name: str) -> str:
    """The kernel's name, plain, and nothing that reads as a number or as unknown."""
    found = _plain(name)
    return f"kernel-{found}" if re.fullmatch(r"(?i:unknown)|\.?[0-9][0-9.eE+-]*", found) else found


def _writable(text: str) -> str:
    """The text with `?` for half characters, which JSON can tell and no file can hold."""
    return text.encode(errors="replace").decode()


def _kernel(name: str, one: Recorded, before: Kernel | None) -> Kernel:
    """The declaration, widened by the values that another file's rows have."""
    constraints = tuple(_constraints(one))
    if before is not None:
        if set(before.by_name) != set(one.parameters) or before.constraints != constraints:
            raise FormatError(f"{one.source} declares another kernel {name} than the files before it")
        listed = {parameter.name: list(parameter.values) for parameter in before.parameters}
    else:
        listed = {parameter: [] for parameter in one.parameters}
    if not one.parameters:
        raise FormatError(f"{one.source} names no parameter")
    columns = dict(zip(one.parameters, zip(*(row.settings for row in one.rows), strict=True), strict=False))
    for parameter, values in listed.items():
        values += [*one.parameters[parameter], *columns.get(parameter, ())]
    try:
        parameters = tuple(Parameter(_identifier(parameter), _ordered(values)) for parameter, values in listed.items())
    except MisuseError as error:
        raise FormatError(f"{one.source}: {error}") from None
    if before is not None:
        return replace(before, parameters=parameters)
    return Kernel(f"{BACKEND}.{name}", "recorded", (BACKEND,), parameters, constraints, (), f"recorded: {one.kernel}",
                  (Constraint.of(f"kernel == {name!r}", f"it is the problem of another kernel than {name}"),))


def _constraints(one: Recorded) -> Iterable[Constraint]:
    known = {*one.parameters, *_problem(_word(one.kernel), one.sizes).names()}
    for text in one.restrictions:
        try:
            found = Constraint.of(text, "a restriction of the kernel's author")
        except MisuseError as error:
            raise FormatError(f"{one.source}: {error}") from None
        unknown = next((name for name in found.expression.names if name not in known), None)
        if unknown is not None:
            raise FormatError(f"{one.source}: {unknown[:40]} is no parameter, in the restriction {text!r:.80}")
        yield found


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name):
        raise FormatError(f"{name[:40]!r} is no name of a parameter")
    return name


def _ordered(values: Sequence[Setting]) -> tuple[Setting, ...]:
    """Each once; numbers ascending, where all are numbers."""
    distinct = dict.fromkeys(values)
    numbers = [value for value in distinct if isinstance(value, int)]
    return tuple(sorted(numbers)) if len(numbers) == len(distinct) else tuple(distinct)


def _problem(kernel: str, sizes: Sequence[object]) -> Problem:
    features: dict[str, Value] = {"kernel": kernel}
    whole = [size for size in sizes
             if isinstance(size, int) and not isinstance(size, bool) and abs(size) <= LARGEST_SIZE]
    if len(whole) == len(sizes) <= len(_AXES):
        features |= zip(_AXES, whole, strict=False)
    else:
        features["size"] = _plain(" ".join(map(str, sizes)))[:200]
    return Problem.make("recorded", **features)


def _frame(one: Recorded, kernel: Kernel, device: str, problem: str) -> pd.DataFrame:
    """Rows of a data set, parameters in the kernel's order, which a later file's need not be."""
    columns: list[Sequence[Any]] = list(zip(*one.rows, strict=True)) or [()] * len(Row._fields)
    settings, statuses, seconds, samples, spread, build = columns
    listed, names = list(one.parameters), list(kernel.by_name)
    order = [listed.index(name) for name in names]
    frame: pd.DataFrame = pd.DataFrame({
        "device": device, "problem": problem, "kernel": kernel.name, "kernel_version": np.int32(1),
        "configuration": [json.dumps({name: values[place] for name, place in zip(names, order, strict=True)},
                                     separators=(",", ":")) for values in settings],
        "status": [status.value for status in statuses], "seconds": np.asarray(seconds, np.float32),
        "spread": np.asarray(spread, np.float32), "samples": np.asarray(samples, np.int32),
        "error": np.float32("nan"), "build_seconds": np.asarray(build, np.float32), "run": RUN, "toolchain": "",
        "workspace": np.int64(0)}, index=range(len(one.rows)))[SCHEMA.names]
    return frame
