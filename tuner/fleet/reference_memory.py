"""ReferenceMemory: references of controls that outlive the driver, in a small file beside the journal.

A driver that was killed and started again compares the first controls of a device with those of the run before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from seqtune.data.json_content import parse_json
from seqtune.errors import FormatError, SeqtuneError, one_line
from seqtune.kernels.files import check_length, read_bounded, write_whole

from .control import Probe, differs
from .engine import Member

SUFFIX = ".controls.json"  # after the name of the journal
VERSION = 1
MOST_BYTES = 10_000_000  # of the file
OLDEST = 24 * 3600.0  # s since a reference was confirmed: machines are updated and rebuilt from day to day
SAVE_SECONDS = 10.0  # between two writes

Key = tuple[str, str, str, str, str]  # host, Device.key, Device.fingerprint, Device.toolchain, Probe.key


def boot_id() -> str:
    """The identity of this start of the machine; empty where the system does not tell it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class RememberedReference:
    """A reference that a block has confirmed."""

    host: str
    device: str  # Device.key
    fingerprint: str
    toolchain: str
    control: str  # Probe.key
    seconds: float
    when: float  # seconds since 1970, of the last good control
    clock: float  # engine's seconds of it; they go on while the driver's machine is not started anew

    @property
    def key(self) -> Key:
        """The host, device and control to which the reference belongs."""
        return self.host, self.device, self.fingerprint, self.toolchain, self.control

    @classmethod
    def from_json(cls, content: object) -> RememberedReference:
        """Take one entry of the file. Raises ValueError."""
        if not isinstance(content, Mapping) or set(content) != set(cls.__dataclass_fields__):
            raise ValueError("an entry has other fields")
        entry = cls(**content)
        numbers = (entry.seconds, entry.when, entry.clock)
        if not all(isinstance(word, str) for word in entry.key) \
                or not all(type(number) in (int, float) and 0 <= number < 1e12 for number in numbers) \
                or not entry.seconds:
            raise ValueError("an entry has a wrong value")
        return entry


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
        entry = self._entries.get(_key(member, probe))
        return entry.seconds if entry is not None and self._age(entry) <= OLDEST else None

    def _age(self, entry: RememberedReference) -> float:
        """The seconds since a reference was confirmed, by the clock that never jumps where it has gone on since."""
        since = self._clock() - entry.clock
        return since if since >= 0 and entry.clock else abs(self._wall() - entry.when)

    def confirm(self, member: Member, probe: Probe, seconds: float) -> None:
        """Note a reference that a good control has confirmed. One that agrees with it stays, so that none creeps."""
        key, known = _key(member, probe), self.seconds(member, probe)
        reference = seconds if known is None or differs(known, seconds) else known
        self._entries[key] = RememberedReference(*key, reference, self._wall(), self._clock())
        self._changed = True

    def save(self, at_once: bool = False) -> None:
        """Write the file if a reference has changed and the last write was SAVE_SECONDS ago, or `at_once`.

        A disk that is full is noted as `fault`, and the write is tried again.
        """
        if not self._changed or (self._clock() - self._saved < SAVE_SECONDS and not at_once):
            return
        self._saved = self._clock()
        references = [asdict(entry) for entry in self._entries.values() if self._age(entry) <= OLDEST]
        content = {"version": VERSION, "boot": self._boot, "references": references}
        try:
            write_whole(self.path, json.dumps(content))
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
            if not isinstance(content, Mapping) or content.get("version") != VERSION \
                    or not isinstance(content.get("references"), list):
                raise ValueError("it has another version or form")
            entries = [RememberedReference.from_json(entry) for entry in content["references"]]
            gone_on = self._boot and content.get("boot") == self._boot
            return entries if gone_on else [replace(entry, clock=0.0) for entry in entries]
        except (FormatError, ValueError) as error:
            raise FormatError(f"the controls of earlier runs in {self.path} cannot be read ({one_line(error, 160)}); "
                              "remove the file to begin without them") from None


def _key(member: Member, probe: Probe) -> Key:
    return member.host, *member.group_key, probe.key
