"""Resources: the registers and memory that a compiled CUDA kernel needs, read without a GPU.

The compiled image states everything but the spills, which only the assembler's messages tell (`ptxas -v`). The numbers
of attributes are those that `cuobjdump -elf` prints as EIATTR_REGCOUNT and so on.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from seqtune.errors import FormatError

from .cubin import Cubin, attributes

RESERVED_SHARED = 1024  # bytes at the beginning of a block's shared memory that images from sm_90 on count as theirs

_MAX_THREADS, _PARAM_CBANK, _REQUIRED_THREADS, _MIN_STACK_SIZE, _REGISTERS = 0x05, 0x0A, 0x10, 0x12, 0x2F
_PARAMETER, _BLOCKS_OF_CLUSTER = 0x17, 0x3D
_FUNCTION = re.compile(r"Function properties for (\S+)|(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Resources:
    """The needs of one entry. Memory in bytes, of a thread unless said otherwise."""

    registers: int  # of 32 bits
    shared: int  # static shared memory of a block, without the part that the driver reserves
    stack: int  # local memory: arrays that registers cannot hold, and spilled registers
    spill_stores: int
    spill_loads: int
    parameters: int  # bytes from the entry's first argument to the end of its last
    most_threads: int  # of a block, by __launch_bounds__; 0: no such bound
    cluster: int = 1  # blocks, by __cluster_dims__

    def to_json(self) -> dict[str, int]:
        """A JSON object."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


Spills = Mapping[str, tuple[int, int]]  # entry -> bytes of spill stores and of spill loads


def read_resources(image: bytes, spills: Spills) -> dict[str, Resources]:
    """The resources of every entry of a compiled image. Raises FormatError."""
    cubin = Cubin.read(image)
    symbols = cubin.symbols()
    registers: dict[str, int] = {}
    stacks: dict[str, int] = {}
    for number, value in attributes(cubin.section(".nv.info")):
        if number in (_REGISTERS, _MIN_STACK_SIZE) and len(value) == 8:
            index, amount = struct.unpack("<II", value)
            if index < len(symbols):
                (registers if number == _REGISTERS else stacks)[symbols[index]] = amount
    entries = [section.name.removeprefix(".nv.info.") for section in cubin.sections
               if section.name.startswith(".nv.info.")]
    return {entry: _entry(cubin, entry, registers, stacks.get(entry, 0), spills.get(entry, (0, 0)))
            for entry in entries}


def read_spills(log: str) -> dict[str, tuple[int, int]]:
    """The spills of every function from the messages of `ptxas -v`."""
    spills: dict[str, tuple[int, int]] = {}
    function = ""
    for match in _FUNCTION.finditer(log):
        if match[1]:
            function = match[1]
        elif function:
            spills[function] = int(match[2]), int(match[3])
    return spills


def _entry(cubin: Cubin, entry: str, registers: Mapping[str, int], stack: int, spill: tuple[int, int]) -> Resources:
    if entry not in registers:
        raise FormatError(f"a compiled kernel does not state the registers of {entry!r:.60}")
    shared = cubin.section(f".nv.shared.{entry}")
    parameters, most_threads, cluster = 0, 0, 1
    offsets: list[int] = []  # of the arguments; on sm_90 an argument aligned to 64 bytes does not begin at 0
    for number, value in attributes(cubin.section(f".nv.info.{entry}")):
        if number == _PARAM_CBANK and len(value) == 8:
            parameters = struct.unpack("<IHH", value)[2]
        elif number == _PARAMETER and len(value) == 12:
            offsets.append(struct.unpack("<IHHI", value)[2])
        elif number in (_MAX_THREADS, _REQUIRED_THREADS) and len(value) == 12:
            x, y, z = struct.unpack("<III", value)
            most_threads = x * y * z
        elif number == _BLOCKS_OF_CLUSTER and len(value) == 12:
            cluster = math.prod(struct.unpack("<III", value))
    reserved = RESERVED_SHARED if cubin.architecture >= 90 else 0
    return Resources(registers[entry], max(0, shared.size - reserved) if shared else 0, stack, *spill,
                     max(0, parameters - min(offsets, default=0)),
                     most_threads, cluster)
