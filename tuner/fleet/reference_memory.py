"""ReferenceMemory: references of controls that outlive the driver, in a small file beside the journal.

A driver that was killed and started again compares the first controls of a device with those of the run before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from seqtune.data.json_content import parse_json
from seqtune.errors import FormatError, SeqtuneError, one_line
from seqtune.kernels.files import check_length, read_bounded, write_whole

from .control import Probe, differs
from .engine import Member

SUFFIX = ".controls.json"  # after the name of the journal
MOST_BYTES = 10_000_000  # of the file
OLDEST = 24 * 3600.0  # s since a reference was confirmed: machines are updated and rebuilt from day to day
SAVE_SECONDS = 10.0  # between two writes
LARGEST = 1e12  # seconds in the file

Key = tuple[str, ...]  # the first five fields of a RememberedReference


def boot_id() -> str:
    """The identity of this start of the machine; empty where the system does not tell it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class RememberedReference(BaseModel):
    """A reference that a block has confirmed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: str
    device: str  # Device.key
    fingerprint: str
    toolchain: str
    control: str  # Probe.key
    seconds: float = Field(gt=0, lt=LARGEST)
    when: float = Field(ge=0, lt=LARGEST)  # seconds since 1970, of the last good control
    clock: float = Field(ge=0, lt=LARGEST)  # engine's seconds of it; they go on while the driver's machine is on

    @property
    def key(self) -> Key:
        """The host, device and control to which the reference belongs."""
        return self.host, self.device, self.fingerprint, self.toolchain, self.control


class MemoryFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(strict=True)

    version: Literal[1] = 1
    boot: str = ""  # of the driver's machine, when it was written
    references: list[RememberedReference]


class ReferenceMemory:
    """The references of all devices that have measured for one journal."""

    def __init__(self, journal: Path, wall: Callable[[], float], clock: Callable[[], float],
                 boot: Callable[[], str] = boot_id) -> None:
        """Read the file. Raises FormatError if it is damaged.

        `wall` tells the seconds since 1970, `clock` those of the engine, which never jump.
        """
        self.path = journal.with_name(journal.name + SUFFIX)
        self.fault = ""  # why the file could not be written the last time
        self._wall, self._clock = wall, clock
        self._boot = boot()
        self._entries = {entry.key: entry for entry in self._read()}
        self._changed = False
        self._saved = -math.inf  # engine's seconds

    def seconds(self, member: Member, probe: Probe) -> float | None:
        """The reference of a member's device; None if there is none that is recent."""
        entry = self._entries.get((member.host, *member.group_key, probe.key))
        return entry.seconds if entry is not None and self._age(entry) <= OLDEST else None

    def _age(self, entry: RememberedReference) -> float:
        """The seconds since a reference was confirmed, by the clock that never jumps where it has gone on since."""
        since = self._clock() - entry.clock
        return since if since >= 0 and entry.clock else abs(self._wall() - entry.when)

    def confirm(self, member: Member, probe: Probe, seconds: float) -> None:
        """Note a reference that a good control has confirmed. One that agrees with it stays, so that none creeps."""
        known, (device, fingerprint, toolchain) = self.seconds(member, probe), member.group_key
        entry = RememberedReference(
            host=member.host, device=device, fingerprint=fingerprint, toolchain=toolchain, control=probe.key,
            seconds=seconds if known is None or differs(known, seconds) else known,
            when=self._wall(), clock=self._clock())
        self._entries[entry.key] = entry
        self._changed = True

    def save(self, at_once: bool = False) -> None:
        """Write the file if a reference has changed and the last write was SAVE_SECONDS ago, or `at_once`.

        A disk that is full is noted as `fault`, and the write is tried again.
        """
        if not self._changed or (self._clock() - self._saved < SAVE_SECONDS and not at_once):
            return
        self._saved = self._clock()
        recent = [entry for entry in self._entries.values() if self._age(entry) <= OLDEST]
        try:
            write_whole(self.path, MemoryFile(boot=self._boot, references=recent).model_dump_json())
        except SeqtuneError as error:
            self.fault = one_line(error)
        else:
            self._changed, self.fault = False, ""

    def _read(self) -> list[RememberedReference]:
        check_length(self.path)
        if not self.path.exists():
            return []
        try:
            if not self.path.is_file():
                raise ValueError("it is not a regular file")
            content = parse_json(read_bounded(self.path, MOST_BYTES, only_regular=True), self.path)
            file = MemoryFile.model_validate(content)
        except (FormatError, ValueError) as error:
            raise FormatError(f"the controls of earlier runs in {self.path} cannot be read ({one_line(error, 160)}); "
                              "remove the file to begin without them") from None
        gone_on = self._boot and file.boot == self._boot
        return file.references if gone_on else [entry.model_copy(update={"clock": 0.0}) for entry in file.references]
