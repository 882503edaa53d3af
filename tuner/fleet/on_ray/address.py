"""FleetAddress: where a fleet is. An address where nobody listens is found before Ray tries it, for half a minute."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from seqtune.errors import MisuseError

MOST_LOCAL = 64  # members on this machine: each is a process of about 150 MB
ANSWER_SECONDS = 2.0  # for a connection
FORMS = "local:2 (members on this machine), auto (the Ray cluster of this machine) or ray://HOST:PORT"

_REMOTE = re.compile(r"ray://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})", re.ASCII)
_NAMED = re.compile(r"(?:ray://)?([^/]+):([0-9]{1,5})", re.ASCII)  # Ray resolves what else RAY_ADDRESS may be


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

    @property
    def head(self) -> tuple[str, int] | None:
        """Host and port of the cluster's head, as the user or the variable RAY_ADDRESS names them; None if neither."""
        text = os.environ.get("RAY_ADDRESS", "") if self.text == "auto" else self.text
        named = None if self.local else _NAMED.fullmatch(text)
        return (named[1].strip("[]"), int(named[2])) if named is not None and 0 < int(named[2]) < 65536 else None

    def check(self) -> None:
        """Raise MisuseError if nobody listens at the address."""
        if self.head is not None and (reason := refusal(self.head)):
            where = f"RAY_ADDRESS: nobody answers at {os.environ['RAY_ADDRESS']}" if self.text == "auto" else \
                f"nobody answers at {self.text}"
            raise MisuseError(f"{where} ({reason}); start the head there (ray start --head), or check host and port")


def refusal(head: tuple[str, int]) -> str:
    """Why there is no connection to a host and port; an empty text if there is one."""
    try:
        socket.create_connection(head, ANSWER_SECONDS).close()
    except OSError as error:
        return str(error.strerror or error)
    return ""
