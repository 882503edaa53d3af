"""Cubin: the sections, symbols and attributes of a compiled CUDA image, which is an ELF file of 64 bits.

An image may come from a damaged cache, so every offset and size is checked before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from seqtune.errors import FormatError

from ..image_cache import LARGEST_IMAGE

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
