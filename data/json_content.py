"""JSON files from outside: content whose value would fill the memory is refused before it is parsed.

Two bytes of a text, such as `[]`, become 64 bytes of objects, so a bound on the size of a file alone does not help.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, json_fault

from .unpacking import unpacked

LARGEST_FILE = 200_000_000  # bytes on the disk
LARGEST_CONTENT = 250_000_000  # bytes unpacked
LARGEST_VALUE = 700_000_000  # bytes of objects
# The most bytes of Python's objects that a character of the text can lead to, in CPython 3.11 to 3.14 (`sys.getsizeof`,
# and the entry of the list or dict that contains the object): an empty list, a dict, a number in a list or dict, an
# entry of a dict, half a string (a string has two quotes; equal keys of dicts are one object).
_BYTES = {b"[": 72, b"{": 250, b",": 40, b":": 60, b'"': 16}


def parse_json(content: bytes, source: Path | str, largest: int = LARGEST_VALUE) -> Any:
    """The value of a JSON text in UTF-8, which may begin with a byte-order mark.

    Raises FormatError, which names `source`, if the text is not JSON or its value may need more than `largest` bytes.
    """
    if len(content) + sum(each * content.count(mark) for mark, each in _BYTES.items()) > largest:
        raise FormatError(f"{source} is JSON that may need more than {largest // 1_000_000} MB of memory")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{source} is not JSON: {json_fault(error)}") from None


def read_object(path: Path, mend: bool = False, largest: int = LARGEST_VALUE) -> dict[str, Any]:
    """Read the object of a JSON file, plain or packed by gzip or bz2; `mend` adds missing last brackets.

    `largest` is that of `parse_json`. Raises FormatError.
    """
    content = unpacked(path, LARGEST_FILE, LARGEST_CONTENT).strip()
    try:
        value = parse_json(content, path, largest)
    except FormatError:
        if not mend:
            raise
        value = parse_json(content.removesuffix(b",") + b"}}", path, largest)
    if not isinstance(value, dict):
        raise FormatError(f"{path} holds no JSON object")
    return value
