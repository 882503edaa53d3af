"""Resources: the registers and memory that a compiled CUDA kernel needs, read without a GPU.

The compiled image states everything but the spills, which only the assembler's messages tell (`ptxas -v`). The numbers
of attributes are those that `cuobjdump -elf` prints as EIATTR_REGCOUNT and so on.

The image is an ELF file of 64 bits with sections, symbols and attributes. It may come from a damaged cache, so every
offset and size is checked before it is used.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seqtune.errors import FormatError

from ..image_cache import LARGEST_IMAGE

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


MOST_SECTIONS = 4096
LONGEST_NAME = 4096  # bytes
MACHINE = 190  # EM_CUDA
NO_CONTENT = 8  # SHT_NOBITS: the section has a size, and no bytes in the file
SYMBOLS = 2  # SHT_SYMTAB

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of an image. `content` is empty where the file holds none (shared memory)."""

    name: str
    type: int
    size: int
    link: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Cubin:
    """The sections of an image in order, and its architecture as a number: 90 for sm_90 and sm_90a."""

    architecture: int
    sections: tuple[Section, ...]

    @classmethod
    def read(cls, image: bytes) -> Cubin:
        """Read an image. Raises FormatError if it is not an intact CUDA image."""
        if len(image) > LARGEST_IMAGE:
            raise FormatError(f"a compiled kernel of {len(image)} bytes is too large")
        if len(image) < _HEADER.size or image[:5] != b"\x7fELF\x02":
            raise FormatError("a compiled kernel does not begin like an ELF file of 64 bits")
        header = _HEADER.unpack_from(image)
        machine, begin, flags, entry_size, count, names_index = (header[index] for index in (2, 6, 7, 11, 12, 13))
        if machine != MACHINE or entry_size != _SECTION.size:
            raise FormatError(f"a compiled kernel is for machine {machine}, not for CUDA ({MACHINE})")
        if not 0 < count <= MOST_SECTIONS or names_index >= count:
            raise FormatError(f"a compiled kernel has {count} sections")
        rows = [_SECTION.unpack(_slice(image, begin + index * _SECTION.size, _SECTION.size)) for index in range(count)]
        names = _slice(image, rows[names_index][4], rows[names_index][5])
        sections = tuple(
            Section(_text(names, row[0]), row[1], row[5], row[6],
                    b"" if row[1] in (0, NO_CONTENT) else _slice(image, row[4], row[5]))
            for row in rows)
        return cls(flags >> 8 & 0xFF, sections)

    def section(self, name: str) -> Section | None:
        """The first section of this name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def symbols(self) -> list[str]:
        """The names of all symbols; their indices are those that the attributes hold."""
        table = next((section for section in self.sections if section.type == SYMBOLS), None)
        if table is None or table.link >= len(self.sections):
            return []
        names = self.sections[table.link].content
        whole = len(table.content) // _SYMBOL.size * _SYMBOL.size
        return [_text(names, symbol[0]) for symbol in _SYMBOL.iter_unpack(table.content[:whole])]


def attributes(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """The attributes of a `.nv.info` section: (number, value). Raises FormatError.

    A value follows its size where the format byte is 4; otherwise it is the two bytes where the size would stand.
    """
    content = section.content if section is not None else b""
    offset = 0
    while offset < len(content):
        form, number, size = struct.unpack("<BBH", _slice(content, offset, 4))
        if form == 4:
            yield number, _slice(content, offset + 4, size)
            offset += 4 + size
        else:
            yield number, content[offset + 2:offset + 4]
            offset += 4


def _slice(content: bytes, begin: int, size: int) -> bytes:
    if begin + size > len(content):
        raise FormatError("a compiled kernel is cut off")
    return content[begin:begin + size]


def _text(names: bytes, begin: int) -> str:
    end = names.find(b"\0", begin, begin + LONGEST_NAME)
    if end < 0:
        raise FormatError("a compiled kernel is cut off within a name")
    return names[begin:end].decode("ascii", "replace")
