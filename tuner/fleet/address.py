"""FleetAddress: where the members of a fleet are, as the user writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seqtune.errors import MisuseError

MOST_LOCAL = 64  # members on this machine: each is a process of about 150 MB
FORMS = "local:2 (members on this machine), auto (the Ray cluster of this machine) or ray://HOST:PORT"

_REMOTE = re.compile(r"ray://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FleetAddress:
    """An address: members that this process starts on this machine, or a running Ray cluster."""

    text: str
    local: int = 0  # number of members on this machine; 0 for a cluster

    @classmethod
    def parse(cls, text: object) -> FleetAddress:
        """Parse `local:2`, `auto` or `ray://HOST:PORT`. Raises MisuseError."""
        if isinstance(text, str):
            kind, _, rest = text.partition(":")
            if kind == "local" and rest.isascii() and rest.isdecimal() and 0 < len(rest) < 4:
                if not 1 <= int(rest) <= MOST_LOCAL:
                    raise MisuseError(f"--fleet {text}: a fleet on this machine has 1 to {MOST_LOCAL} members")
                return cls(text, int(rest))
            remote = _REMOTE.fullmatch(text)
            if text == "auto" or (remote is not None and 0 < int(remote[2]) < 65536):
                return cls(text)
        raise MisuseError(f"no fleet {text!r:.80}; give {FORMS}")
