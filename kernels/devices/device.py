"""Device: facts about what a kernel runs on. It opens nothing; `seqtune.tuner.backends.discovery` discovers devices.

Backend, instruction set and threads make a device's identity, so one CPU gives several real devices:
`llvm:avx512:2` is its AVX-512 units on two threads, `llvm:avx2:1` its AVX2 units on one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seqtune.errors import FormatError, shown

from ..arithmetic import LARGEST_NUMBER

Fact = int | float | str
PROBED = ("l1_gbs", "l2_gbs", "l3_gbs", "wake_microseconds", "gather_nanoseconds")  # facts that older files lack
MEASURED = ("peak_gflops", "bandwidth_gbs", *PROBED)  # facts that differ from one measurement to the next
# Facts of `extra` that constraints can name on any device: 1 where it has an instruction, else 0. Fact -> what the
# instruction computes, for messages.
CAPABILITIES = {
    "bf16_dots": "dot products of bf16 numbers",  # added in pairs to fp32 sums; and an instruction rounds fp32 to bf16
    "int8_dots": "dot products of int8 numbers",  # of four unsigned and four signed bytes, added to a 32-bit sum
    "avx_vnni": "dot products of int8 numbers in vectors of 256 bits",  # they are `int8_dots` of the avx2 device
    "amx_tile": "tile registers",  # AMX: eight of 16 rows of 64 bytes
    "amx_bf16": "products of bf16 matrices in tile registers",
    "amx_int8": "products of int8 matrices in tile registers",  # no kernel uses them yet
    "arm_fp16": "arithmetic of fp16 numbers",  # of eight in 128 bits; no kernel uses ARM's three yet
    "arm_bf16": "ARM's dot products of bf16 numbers",  # BFDOT, which rounds each product and sum in a way of its own
    "arm_i8mm": "ARM's products of int8 matrices"}  # and USDOT, which computes what `int8_dots` tells
LONGEST_IDENTITY = 1000  # characters
COMMAND_DEVICE = "command:cpu"  # the only device on which programs run
_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


@dataclass(frozen=True, slots=True)
class Device:
    """Facts about one device. Sizes are bytes, rates GFLOP/s and GB/s; 0 means that a limit does not apply."""

    name: str  # "llvm:avx512:2", "opencl:cpu-amd-epyc"; the same in every process
    backend: str  # llvm | opencl | cuda | miopen | recorded ...
    architecture: str  # "znver5", "sm_90", "gfx906"
    instruction_set: str  # "avx512", "avx2", "sse", "sve512", "sve256", "neon", "opencl-c-1.2"
    model: str = ""  # the vendor's name
    threads: int = 1  # CPU threads used, 0 where it does not apply
    compute_units: int = 1
    vector_bits: int = 128  # widest register
    vector_registers: int = 16
    l1_bytes: int = 0
    l2_bytes: int = 0
    l3_bytes: int = 0
    local_memory: int = 0  # bytes a work-group can share
    max_work_group: int = 0  # work-items that every kernel may have; a Mali's driver allows small kernels more
    peak_gflops: float = 0.0  # measured fp32, all threads
    bandwidth_gbs: float = 0.0  # measured, from memory
    l1_gbs: float = 0.0  # measured reads of all threads, each from its own first-level cache; 0: not known
    l2_gbs: float = 0.0
    l3_gbs: float = 0.0
    wake_microseconds: float = 0.0  # measured: to start all threads on a launch and to wait for them
    gather_nanoseconds: float = 0.0  # measured: to gather one number from every second one of a cached row
    toolchain: str = ""  # the compiler: "llvmlite 0.50 LLVM 22.1"; part of a cache key
    extra: tuple[tuple[str, Fact], ...] = field(default=())

    @property
    def key(self) -> str:
        """The identity of the device in records: name, model and size, without toolchain and measured rates."""
        size = "" if self.backend == "llvm" else f"x{self.compute_units}"  # llvm names contain the number of threads
        return " ".join(f"{self.name} {self.architecture} {self.model} {size}".split())

    @property
    def fingerprint(self) -> str:
        """The sizes that may differ between machines whose devices share a `key`, as cloud machines often do.

        Measured rates are left out: they change from one measurement to the next.
        """
        sizes = {"l1": self.l1_bytes, "l2": self.l2_bytes, "l3": self.l3_bytes, "local": self.local_memory}
        return " ".join(f"{name}={size}" for name, size in sizes.items())

    @property
    def identity(self) -> str:
        """The device together with the machine that it is on: `key` and `fingerprint`, cut after LONGEST_IDENTITY."""
        return f"{self.key} {self.fingerprint}"[:LONGEST_IDENTITY]

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The names of CAPABILITIES that the device has."""
        names = self.names()
        return tuple(name for name in CAPABILITIES if names[name])

    @property
    def vector_floats(self) -> int:
        """The number of fp32 lanes of the widest register."""
        return self.vector_bits // 32

    def names(self) -> dict[str, Fact]:
        """The facts that constraints can name: limits, counts, CAPABILITIES and all of `extra`."""
        return {
            **dict.fromkeys(CAPABILITIES, 0), **dict(self.extra), "threads": self.threads,
            "compute_units": self.compute_units, "vector_floats": self.vector_floats,
            "vector_registers": self.vector_registers, "l1_bytes": self.l1_bytes, "l2_bytes": self.l2_bytes,
            "l3_bytes": self.l3_bytes, "local_memory": self.local_memory, "max_work_group": self.max_work_group,
            "instruction_set": self.instruction_set, "architecture": self.architecture,
        }

    def to_json(self) -> dict[str, Fact | dict[str, Fact]]:
        """The facts as a flat JSON object, except that `extra` is an object in it.

        Facts of PROBED that are not known are left out, so that older versions read files without them.
        """
        facts: dict[str, Fact | dict[str, Fact]] = {
            name: getattr(self, name) for name in self.__dataclass_fields__
            if name != "extra" and (name not in PROBED or getattr(self, name))}
        facts["extra"] = dict(self.extra)
        return facts

    @classmethod
    def from_json(cls, facts: Mapping[str, object]) -> Device:
        """The inverse of `to_json`. Raises FormatError."""
        fields = cls.__dataclass_fields__
        values: dict[str, object] = {}
        for name, value in facts.items():
            if name == "extra" and isinstance(value, Mapping):
                values["extra"] = tuple((str(key), _fact(key, fact)) for key, fact in value.items())
            elif name not in fields:
                raise FormatError(f"a device has no fact {name!r:.40}")
            elif isinstance(value, _KINDS.get(str(fields[name].type), ())) and not isinstance(value, bool):
                _fact(name, value)
                values[name] = _rate(name, float(value)) if isinstance(value, int | float) and name in MEASURED \
                    else value
            else:
                raise FormatError(f"device fact {name}={shown(value)} is not of type {fields[name].type}")
        for name in ("name", "backend", "architecture", "instruction_set"):
            if name not in values:
                raise FormatError(f"a device needs {name}")
        device = cls(**values)  # type: ignore[arg-type]
        own = replace(device, extra=()).names()
        for name, _ in device.extra:
            if name in own and name not in CAPABILITIES:
                raise FormatError(f"the extra device fact {name} would hide the device's own {name}={own[name]!r:.40}")
        return device


def _rate(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise FormatError(f"device fact {name}={value} is not a rate: finite, and not negative")
    return value


def _fact(name: object, value: object) -> Fact:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise FormatError(f"device fact {name!s:.40}={shown(value)} is not a number or a word")
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise FormatError(f"device fact {name!s:.40} is a whole number of more than 64 bits")
    return value
