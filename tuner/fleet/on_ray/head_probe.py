"""Probe the address of a cluster before Ray does, which tries for half a minute whatever is there."""

from __future__ import annotations

import os
import socket

from seqtune.errors import MisuseError

ANSWER_SECONDS = 5.0  # for a connection, and for the first words of a server
PORT = 10001  # of Ray's client server, unless the head was told otherwise

# RFC 9113, 3.4: both sides of HTTP/2, which gRPC uses, open with a SETTINGS frame; the client's follows a fixed text.
_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HEADER_BYTES = 9  # of a frame: length (3), type, flags, stream (4)
_SETTINGS = 4


def probe_head(address: str, source: str = "") -> None:
    """Raise MisuseError if nobody listens at `ray://HOST:PORT` or `HOST:PORT`, or something without gRPC.

    `source` begins the message: where an address comes from that the user did not type.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            if os.environ.get("RAY_USE_TLS", "0") in ("0", "") and not _speaks_grpc(connection):
                raise MisuseError(
                    f"{source}{address} is not the port of a Ray client server, which is {PORT} unless ray start was "
                    "given --ray-client-server-port" if address.startswith("ray://") else
                    f"{source}{address} is not the port of a Ray cluster's head, which ray start prints")
    except OSError as error:
        raise MisuseError(f"{source}nobody answers at {address} ({error.strerror or error}); start the head there "
                          "(ray start --head), or check host and port") from None


def _speaks_grpc(connection: socket.socket) -> bool:
    """Whether the server opens with a SETTINGS frame."""
    try:
        connection.sendall(_OPENING)
        header = b""
        while len(header) < _HEADER_BYTES:
            piece = connection.recv(_HEADER_BYTES - len(header))
            if not piece:
                return False
            header += piece
    except OSError:
        return False
    return header[3] == _SETTINGS and header[5:] == bytes(4)
