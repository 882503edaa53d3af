"""Discovery of this CPU's devices: each of its instruction sets, on any number of threads up to one per physical core.

Those on all cores and on one core are listed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device

from .compiler import INSTRUCTION_SETS, capabilities, instruction_sets, toolchain
from .cores import usable_cpus
from .facts import caches, cpu_model, cpu_name, measured_rates
from .probe import Rates


class CpuDevices:
    """The devices of a CPU, each made once. `cores` is the number of cores that may be used."""

    def __init__(self, cores: Callable[[], int] = lambda: len(usable_cpus()),
                 rates_of: Callable[[str, int], Rates] = measured_rates) -> None:
        self._cores, self._rates_of = cores, rates_of
        self._devices: dict[tuple[str, int], Device] = {}

    def _device(self, name: str, threads: int) -> Device:
        """The device of an instruction set and a number of threads."""
        if (name, threads) not in self._devices:
            vectors = INSTRUCTION_SETS[name]
            self._devices[name, threads] = Device(
                name=f"llvm:{name}:{threads}", backend="llvm", architecture=cpu_name(), instruction_set=name,
                model=cpu_model(), threads=threads, compute_units=threads,
                vector_bits=vectors.vector_bits, vector_registers=vectors.vector_registers, l1_bytes=caches()[1],
                l2_bytes=caches()[2], l3_bytes=caches()[3], toolchain=toolchain(), extra=capabilities(name),
                **self._rates_of(name, threads))  # type: ignore[arg-type]
        return self._devices[name, threads]

    def _listed(self) -> list[tuple[str, int]]:
        """Instruction set and threads of the listed devices, in the order of `devices`."""
        return [(name, threads) for name in instruction_sets() for threads in dict.fromkeys((self._cores(), 1))]

    def devices(self) -> list[Device]:
        """The listed devices, on all cores and on one core; best first, which is the widest vectors on all."""
        return [self._device(name, threads) for name, threads in self._listed()]

    def device_of(self, name: str) -> Device | None:
        """The device of a name, without measuring the rates of others; None for other names.

        A name has any number of threads up to one per core (`llvm:avx512:3`), is a family (`llvm:avx512`, `llvm`: the
        first one listed) or a number in the list (`llvm:0`). Raises DeviceError for another number of threads.
        """
        listed = self._listed()
        _, _, rest = name.partition(":")
        if rest.isdecimal() and len(rest) < 6 and int(rest) < len(listed):
            return self._device(*listed[int(rest)])
        if ":" not in rest:
            first = next((entry for entry in listed if rest in ("", entry[0])), None)
            return None if first is None else self._device(*first)
        instruction_set, _, threads = rest.partition(":")
        if instruction_set not in instruction_sets() or not (threads.isascii() and threads.isdecimal()):
            return None
        cores = self._cores()
        if len(threads) > len(str(cores)) or not 1 <= int(threads) <= cores:
            raise DeviceError(f"no device {name!r:.60}; this machine has {cores} cores for 1 to {cores} threads")
        return self._device(instruction_set, int(threads))


def unavailable() -> str | None:
    """The reason why this machine has no llvm device, or None."""
    return None if instruction_sets() else f"LLVM finds no vector instructions on this CPU ({platform.machine()})"


_THIS_CPU = CpuDevices()
devices, device_of = _THIS_CPU.devices, _THIS_CPU.device_of
