"""Recording: keeps every configuration that triton.autotune benchmarks in a journal, through Triton's listener.

A kernel's records are of the problem `recorded kernel=FUNCTION ...`, as `seqtune import triton` reads them from disk:
the features are the key's, numbered or by the names given. Triton's listener is not called where nothing was
benchmarked: for a key that it knows, for one configuration, and from Triton 3.8 on with a prediction of one.
"""

from __future__ import annotations

import math
import socket
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from seqtune.data.formats.foreign_records import plain_word, version_of
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import SeqtuneError, SeqtuneWarning
from seqtune.hooks.asking import running_device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..formats import OPTIONS, config_settings, key_features, timed
from .configs import library

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device

RUN = "triton"  # the run of these records


def record(journal: str | Path, *, keys: Mapping[str, Sequence[str]] | None = None,
           device: Device | str | None = None) -> Recording:
    """Record every benchmark of triton.autotune from now on; an earlier listener is called, too.

    `keys` gives, for a kernel's function name, the names of its key arguments. `device` counts where no GPU is running.
    The result ends the recording by `stop()` or as a context manager. Raises UnavailableError without Triton, or if it
    is older than its listener, and FormatError where the journal cannot be opened.
    """
    return Recording(journal, keys or {}, device)


class Recording:
    """A recording in progress; `record` makes one."""

    def __init__(self, journal: str | Path, keys: Mapping[str, Sequence[str]], device: Device | str | None) -> None:
        self.knobs = listening_knobs()
        self.keys, self.device = keys, device
        self.journal = Journal(journal)
        self.earlier: Callable[..., Any] | None = self.knobs.listener
        self.knobs.listener = self.listen
        self.written = 0

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Restore the earlier listener and close the journal. A listener that was set since then stays."""
        if self.knobs.listener == self.listen:
            self.knobs.listener = self.earlier
        self.journal.close()

    def listen(self, **benchmark: Any) -> None:
        """Keep the timings of one key; Triton calls this. Where that fails, a warning says so, and tuning goes on."""
        if self.earlier is not None:
            self.earlier(**benchmark)
        try:
            if not benchmark.get("cache_hit"):
                self.keep(benchmark["fn"], benchmark["key"], benchmark["configs_timings"])
        except SeqtuneError as error:
            warnings.warn(f"seqtune keeps no record of this tuning: {error}", SeqtuneWarning, stacklevel=2)

    def keep(self, function: Any, key: Sequence[object], timings: Mapping[Any, Any]) -> None:
        """Write a record for each configuration. Raises SeqtuneError."""
        device = running_device(self.device)
        name = str(getattr(function, "__name__", "kernel"))
        word = plain_word(name)
        problem = Problem.make("recorded", **{**key_features(key, self.keys.get(name, ())), "kernel": word})
        self.journal.add_device(device)
        toolchain = device.toolchain or f"triton {library().__version__}"
        for config, times in timings.items():
            settings = config_settings(config.kwargs, {option: getattr(config, option, None) for option in OPTIONS})
            row = timed(list(times) if isinstance(times, list | tuple) else [times])
            if isinstance(settings, str) or row is None:
                continue
            samples = () if math.isinf(row.seconds) else (row.seconds,)
            measured = Measurement(row.status, samples,
                                   message="" if row.status is Status.CORRECT else "Triton could not run it")
            configuration, version = Configuration.of(f"recorded.{word}", settings), version_of(settings.values())
            self.written += self.journal.add(Record(
                problem, device.key, version, configuration, toolchain, measured, time.time(), RUN,
                socket.gethostname(), device.fingerprint))


def listening_knobs() -> Any:
    """Triton's `knobs.autotuning`. Raises UnavailableError where it has no listener."""
    from seqtune.errors import UnavailableError

    triton = library()
    knobs = getattr(getattr(triton, "knobs", None), "autotuning", None)
    if not hasattr(knobs, "listener"):
        raise UnavailableError(f"Triton {triton.__version__} has no listener for autotuning; 3.9 has one")
    return knobs
