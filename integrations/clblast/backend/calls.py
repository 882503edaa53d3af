"""CLBlastCalls: matrix products by CLBlast on one queue, each with the configuration that it is given.

CLBlast's parameters belong to the process and a device, not to a call. A call therefore sets them first if another
configuration was set last. CLBlast keeps the programs of all parameters, so setting them again builds nothing.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from seqtune.kernels.kernel import Configuration, Setting
from seqtune.tuner.backends.opencl import pocl

from ..kernels import xgemm, xgemm_direct
from .program_binaries import spared
from .shared_library import CLBlast, CLBlastError, load_clblast

XGEMM, DIRECT, ROUTINE, SWITCH = "Xgemm", "XgemmDirect", "GemmRoutine", "XGEMM_MIN_INDIRECT_SIZE"
NAMES = {xgemm.KERNEL.name: XGEMM, xgemm_direct.KERNEL.name: DIRECT}  # kernel family -> CLBlast's name
ALWAYS_INDIRECT, ALWAYS_DIRECT = 0, 2_000_000  # edges of a cube of m n k; the second one's volume still fits 64 bits
_REBUILD = (-42, -43, -44, -45)  # statuses of a program made from a binary that was spared

ParameterSets = dict[str, dict[str, int]]  # CLBlast's kernel name -> its parameters


class _Process:
    """State of CLBlast in this process: its parameters belong to the process."""

    current: ParameterSets = {}  # noqa: RUF012 (deliberately of the process)
    device = 0
    context = 0


def parameter_sets(configuration: Configuration) -> ParameterSets:
    """The parameters of CLBlast's three kernels that make it run a configuration for every problem.

    The family that does not run gets its declared default, so that equal configurations are equal programs.
    """
    name = NAMES[configuration.kernel]
    settings = {XGEMM: _numbers(dict(xgemm.KERNEL.default)), DIRECT: _numbers(dict(xgemm_direct.KERNEL.default)),
                ROUTINE: {SWITCH: ALWAYS_DIRECT if name == DIRECT else ALWAYS_INDIRECT}}
    settings[name] = _numbers(dict(configuration.settings))
    return settings


def _numbers(settings: dict[str, Setting]) -> dict[str, int]:
    return {name: int(value) for name, value in settings.items()}


class CLBlastCalls:
    """Calls CLBlast on one queue of pyopencl. Raises UnavailableError if the library is not installed."""

    def __init__(self, queue: Any) -> None:
        self.library: CLBlast = load_clblast()
        self.queue = queue
        self.device = int(queue.device.int_ptr)
        self._is_pocl = queue.device.platform.name == pocl.NAME

    def defaults(self) -> ParameterSets:
        """The parameters that CLBlast uses on the device at present; before any call, those of its database."""
        return {name: self.library.retrieve(self.device, name) for name in (XGEMM, DIRECT, ROUTINE)}

    def select(self, settings: ParameterSets) -> bool:
        """Set the parameters unless they are set. Returns whether anything was set. Raises CLBlastError."""
        if _Process.device != self.device:
            _Process.current, _Process.device = {}, self.device
        changed = [name for name, parameters in settings.items() if _Process.current.get(name) != parameters]
        for name in changed:
            self.library.override(self.device, name, settings[name])
            _Process.current[name] = settings[name]
        return bool(changed)

    def call(self, transposed: tuple[bool, bool], sizes: tuple[int, int, int], scales: tuple[float, float],
             buffers: tuple[int, int, int], offsets: tuple[int, int, int] = (0, 0, 0)) -> None:
        """Enqueue a product with the parameters set last; see `CLBlast.sgemm`. Raises CLBlastError."""
        context = int(self.queue.context.int_ptr)
        if context != _Process.context:
            if _Process.context:
                self.library.clear_cache()
            _Process.context = context
        with spared(self.device) if self._is_pocl else nullcontext():
            try:
                self.library.sgemm(int(self.queue.int_ptr), transposed, sizes, scales, buffers, offsets)
            except CLBlastError as error:
                if error.status not in _REBUILD:
                    raise
                self.library.clear_cache()
                self.library.sgemm(int(self.queue.int_ptr), transposed, sizes, scales, buffers, offsets)
