"""FleetAddress: where a fleet is. What is wrong with an address is found before Ray tries it, for half a minute."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from seqtune.errors import MisuseError

from .importing import check_token

MOST_LOCAL = 64  # members on this machine: each is a process of about 150 MB
ANSWER_SECONDS = 5.0  # for a connection, and for the first words of a server
PORT = 10001  # of Ray's client server, unless the head was told otherwise
FORMS = "local:2 (members on this machine), auto (the Ray cluster of this machine) or ray://HOST:PORT"

_REMOTE = re.compile(r"ray://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})", re.ASCII)
_NAMED = re.compile(r"(?:ray://)?([^/]+):([0-9]{1,5})", re.ASCII)  # Ray resolves what else RAY_ADDRESS may be
# RFC 9113, 3.4: both sides of HTTP/2, which gRPC uses, open with a SETTINGS frame; the client's follows a fixed text.
_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4  # the fourth byte of a frame, after its length


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
        """Raise MisuseError if there is no token for the cluster, or no head of a cluster at the address."""
        if self.local:
            return
        check_token()
        if self.head is None:
            return
        address = os.environ["RAY_ADDRESS"] if self.text == "auto" else self.text
        source = "RAY_ADDRESS: " if self.text == "auto" else ""
        tls = os.environ.get("RAY_USE_TLS", "0") not in ("0", "")  # Ray itself finds out about such servers
        try:
            with socket.create_connection(self.head, ANSWER_SECONDS) as connection:
                if not tls:
                    connection.sendall(_OPENING)
                speaks_grpc = tls or connection.recv(len(_OPENING))[3:4] == bytes([_SETTINGS])
        except OSError as error:
            raise MisuseError(f"{source}nobody answers at {address} ({error.strerror or error}); start the head there "
                              "(ray start --head), or check host and port") from None
        if not speaks_grpc:
            raise MisuseError(
                f"{source}{address} is not the port of a Ray client server, which is {PORT} unless ray start was "
                "given --ray-client-server-port" if address.startswith("ray://") else
                f"{source}{address} is not the port of a Ray cluster's head, which ray start prints")
