"""WorkerMessage: reads and checks the messages of a measuring worker, whose process may run harmful kernels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from seqtune.data.record import Measurement
from seqtune.errors import FormatError, json_fault
from seqtune.kernels.resource_usage import ResourceUsage

LONGEST_LINE = 4_000_000  # bytes: a comparison of 1,000 configurations with 200 samples each has as many

Message = dict[str, Any]


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_text, value)))


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < math.inf


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_resources(value: object) -> bool:
    if value is not None:
        ResourceUsage.from_json(value)
    return True


def _is_measurement(value: object) -> bool:
    return isinstance(value, Mapping) and Measurement.from_json(value) is not None


def _is_comparison(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_measurement, value))


_NEEDS: dict[str, Callable[[object], bool]] = {"resources": _is_resources, "allowance": _is_duration}
_KINDS: dict[str, dict[str, Callable[[object], bool]]] = {  # first field -> all fields, with the check of each
    "ready": {"ready": _is_truth, "build_allowance": _is_duration},
    "error": {"error": _is_text, "misuse": _is_truth},
    "warning": {"warning": _is_text},
    "preparing": {"preparing": _is_text, "failed": _is_texts},
    "prepared": {"prepared": _is_truth, "note": _is_text},
    "built": {"built": _is_truth, **_NEEDS},
    "measurement": {"measurement": _is_measurement},
    "at": {"at": _is_index, **_NEEDS},
    "compared": {"compared": _is_comparison},
    "done": {"done": _is_truth},
}


def lines(stream: _Stream) -> Iterator[bytes]:
    """The lines of a pipe, without their ends. Raises FormatError for a line above LONGEST_LINE."""
    line = bytearray()
    while chunk := stream.read(65536):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > LONGEST_LINE:
            raise FormatError(f"a line is longer than {LONGEST_LINE} bytes")


def read_message(line: bytes) -> Message:
    """The message of a line. Raises FormatError if it is none that a worker of this version sends."""
    try:
        content = json.loads(line)
        message: Message = content if isinstance(content, dict) else {}
        kind = next((kind for kind in _KINDS if kind in message), None)
        if kind is None or message.keys() != _KINDS[kind].keys():
            raise FormatError(f"not a worker's message: {line[:80]!r}")
        wrong = next((name for name, check in _KINDS[kind].items() if not check(message[name])), None)
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        raise FormatError(f"not a worker's message: {json_fault(error)}") from None
    if wrong is not None:
        raise FormatError(f"{wrong!r} of a worker's message is wrong: {line[:80]!r}")
    return message
