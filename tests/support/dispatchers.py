"""Dispatchers without a run: two members, the second of them for more than so many rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.registry import kernel
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.rule import Rule, Tree


def by_size(name: str, rows: int, members: Sequence[Configuration], device: Device | None, *domain: str) -> Dispatcher:
    """The dispatcher that prefers the second of two members where the feature `name` is above `rows`."""
    family = kernel(members[0].kernel)
    rule = Rule(2, (Fact(name, Expression(name)),), ((0, rows),), (Tree((0,), ((0, 1), (1, 0))),), 1)
    return Dispatcher.of(members, {family.name: family}, device, rule,
                         Domain.parse(operation(family.operation), domain))


def changed(family: str, **settings: int) -> Configuration:
    """The default of a kernel with other settings."""
    return Configuration.of(family, {**dict(kernel(family).default), **settings})


def saved(folder: Path, dispatcher: Dispatcher) -> Path:
    """The dispatcher's file."""
    dispatcher.save(folder / "dispatch.json")
    return folder / "dispatch.json"
