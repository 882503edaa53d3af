"""Tuning on a fleet: the devices of several machines, or several members on this one, measure for one driver."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.data.journal.journal import Journal, default_path
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_writable
from seqtune.kernels.registry import can_run
from seqtune.tuner.backends.backend import BACKENDS
from seqtune.tuner.fleet.member_state import FleetProgress
from seqtune.tuner.fleet.on_ray.cluster import FleetAddress
from seqtune.tuner.fleet.on_ray.engine import RayEngine
from seqtune.tuner.fleet.on_ray.status import FleetStatus
from seqtune.tuner.fleet.reference_memory import ReferenceMemory
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.measuring.tensor_limit import check_measurable

from ...errors import DeviceError, MisuseError
from ..checking import check_allowed
from .results import TuningReport

if TYPE_CHECKING:
    from seqtune.tuner.run.plan import Plan


def fleet_device(device: Device | str | None) -> str:
    """The name of the device that members look for on their machines. Raises DeviceError, MisuseError."""
    name = device.name if isinstance(device, Device) else "llvm:0" if device is None else device
    if not isinstance(name, str) or name.partition(":")[0] not in BACKENDS:
        raise DeviceError(f"no device {name!r:.60}; a fleet measures on devices of {', '.join(BACKENDS)}")
    if not can_run(name.partition(":")[0]):
        raise MisuseError(f"kernels of {name.partition(':')[0]} cannot be run, so there is nothing to measure")
    return name


@contextmanager
def on_fleet(plan: Plan, device: Device | str | None, fleet: str, journal: str | Path | None,
             progress: Callable[[FleetProgress], None]) -> Iterator[tuple[FleetRun, TuningReport]]:
    """Start a fleet, and make a run of the plan by all members that have the device. Raises MisuseError, SeqtuneError.

    Unlike devices make their own trials of every problem, so a problem may have several results.
    """
    address, name = FleetAddress.parse(fleet), fleet_device(device)
    check_allowed(name.partition(":")[0], {problem.type for problem in plan.problems})
    _check_files(journal)
    if len(plan.problems) == 1:
        check_measurable(plan.problems[0])  # of several problems, such a one is skipped
    with closing(RayEngine(address, name)) as engine:
        first = engine.members[0].device
        if len(plan.problems) == 1:
            plan.task_of(plan.problems[0], first)  # raises with the reason

        def report(state: FleetProgress) -> None:
            progress(state)
            engine.note(json.dumps(state.to_json()))  # for `fleet status`

        with Journal(journal) as records:
            yield FleetRun(plan, engine, records, report), TuningReport(first, records.path, fleet=fleet)


def _check_files(journal: str | Path | None) -> None:
    """Raise what is wrong with the journal's files before the fleet starts, which takes seconds. Makes no journal."""
    path = default_path() if journal is None else Path(journal)
    if path.exists():
        Journal(journal).close()
    elif journal is not None:
        if not path.parent.is_dir():
            raise MisuseError(f"the folder of the journal {path} does not exist")
        check_writable(path.parent)
    ReferenceMemory(path, time.time, time.monotonic)


def fleet_status(fleet: str = "auto") -> FleetStatus:
    """The status of a running fleet. Raises MisuseError if there is no cluster at the address."""
    address = FleetAddress.parse(fleet)
    if address.local:
        raise MisuseError("a fleet of this machine alone (local:N) shows its progress where it was started; `auto` and "
                          "ray://HOST:PORT have a status")
    return FleetStatus.of(address)
