"""LeftOut: a data set split for leave-one-out over machines and OpenCL runtimes.

A machine is a CPU model with its cache sizes; all its devices, those of OpenCL runtimes included, are left out
together. A runtime is the OpenCL devices of one name, on all machines; leaving it out keeps their other devices.

The evaluated problems are new to the training as well: the data set's held-out problems that the left-out devices have,
or, where these are fewer than FEWEST, half of the problems measured there. No problem near one of them is trained on.
Problems for which a kernel was measured that no other device has measured are left out everywhere: nothing is known of
that kernel then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

FEWEST = 15  # problems over which an interval still says something


@dataclass(frozen=True)
class LeftOut:
    """One split. `without` has the rows of the other devices, `own` those of the left-out ones, by problem parts.

    `old` has the rows of `without` and those of the data set's held-out problems, which a retraining must not learn.
    """

    name: str
    devices: tuple[str, ...]  # keys
    evaluated: frozenset[str]  # keys of the problems of the evaluation, which no training sees
    without: Dataset  # training rows of the other devices
    own: Dataset  # rows of the left-out devices; the evaluated problems are held out
    old: Dataset  # rows of the other devices, held-out ones included

    def digest(self) -> str:
        """A checksum of the measurements in `without`, in any order."""
        measured = self.without.rows[["device", "problem", "kernel", "configuration", "seconds"]]
        return f"{int(pd.util.hash_pandas_object(measured, index=False).to_numpy().sum()):x}"

    def with_few(self, count: int, seed: int) -> Dataset:
        """The rows of `own` with only `count` training problems, drawn with the seed, and all evaluated ones.

        Raises MisuseError if there are not so many.
        """
        training = sorted({*self.own.rows["problem"]} - self.evaluated)
        if len(training) < count:
            raise MisuseError(f"{self.name} has {len(training)} problems to learn from; --few asks for {count}")
        order = np.random.default_rng(seed).permutation(len(training))
        wanted = self.evaluated | {training[index] for index in order[:count]}
        return replace(self.own, rows=self.own.rows[self.own.rows["problem"].isin(wanted)].reset_index(drop=True))


def groups(devices: Iterable[Device]) -> dict[str, tuple[str, ...]]:
    """The choices: every machine, and every OpenCL runtime where there are several; name -> device keys.

    A machine is named after the architecture of its first llvm device, and the CPU's model where that is shared. A
    runtime has the name of its devices, which it bears on every machine.
    """
    machines: dict[tuple[object, ...], list[Device]] = {}
    for device in devices:
        machines.setdefault((device.model, device.l1_bytes, device.l2_bytes, device.l3_bytes), []).append(device)
    named: dict[str, tuple[str, ...]] = {}
    for members in machines.values() if len(machines) > 1 else ():
        first = next((device for device in members if device.backend == "llvm"), members[0])
        name = first.architecture if first.architecture not in named else f"{first.architecture} {first.model}"
        named[name] = tuple(member.key for member in members)
    runtimes: dict[str, tuple[str, ...]] = {}
    for device in (device for members in machines.values() for device in members if device.backend == "opencl"):
        runtimes[device.name] = (*runtimes.get(device.name, ()), device.key)
    return {**named, **runtimes} if len(runtimes) > 1 else named


def left_out(data: Dataset, name: str, seed: int = 0) -> LeftOut:
    """Leave one group out. Raises MisuseError if there is no such group or too little is measured there."""
    choices = groups(data.devices.values())
    if name not in choices:
        raise MisuseError(f"nothing to leave out is called {name!r:.60}; there are {', '.join(choices) or 'none'}")
    keys = choices[name]
    is_own = data.rows["device"].isin(keys)
    is_learned = data.rows["kernel"].isin(set(data.rows["kernel"][~is_own]))
    is_known = ~data.rows["problem"].isin(set(data.rows["problem"][is_own & ~is_learned]))
    own = replace(data, rows=data.rows[is_own & is_known].reset_index(drop=True),
                  devices={key: data.devices[key] for key in keys})
    evaluated = _evaluated(own, seed)
    near = _near(data, evaluated)
    others, held_out = data.rows[~is_own], data.rows["problem"].isin(data.held_out)
    training = others[~others["problem"].isin(near | data.held_out)]
    if not len(training):
        raise MisuseError(f"the data set has no device but those of {name}; the training needs another")
    devices = {key: device for key, device in data.devices.items() if key not in keys}
    without = replace(data, rows=training.reset_index(drop=True), held_out=frozenset(), devices=devices)
    old = pd.concat([training, others[held_out[~is_own]]], ignore_index=True)
    far = ~own.rows["problem"].isin(near | _near(data, data.held_out))
    kept = own.rows[own.rows["problem"].isin(evaluated) | far].reset_index(drop=True)
    return LeftOut(name, keys, evaluated, without, replace(own, rows=kept, held_out=evaluated),
                   replace(data, rows=old, devices=devices))


def _near(data: Dataset, keys: Iterable[str]) -> set[str]:
    """The keys of the problems that are near to one of these problems, themselves included."""
    index = SimilarityIndex(data.known_problems[key] for key in keys if key in data.known_problems)
    return {key for key, problem in data.known_problems.items() if index.has_near(problem)}


def _evaluated(own: Dataset, seed: int) -> frozenset[str]:
    measured = set(own.rows["problem"])
    held_out = measured & own.held_out
    if len(held_out) >= FEWEST:
        return frozenset(held_out)
    ordered = sorted(measured)
    if len(ordered) < 2 * FEWEST:
        raise MisuseError(f"only {len(ordered)} problems are measured there; {2 * FEWEST} are needed for an evaluation")
    order = np.random.default_rng(seed).permutation(len(ordered))
    return frozenset(ordered[index] for index in order[:len(ordered) // 2])
