"""RayCluster: the connection to Ray, started here for `local:N` or running elsewhere, and the devices that it offers.

A node offers devices by resources: `seqtune_llvm: 1` is one device of the backend llvm. GPUs that Ray has found are
offered to the backends of GPUs without such words.
"""

from __future__ import annotations

import logging
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seqtune.errors import MisuseError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS

from .address import FleetAddress
from .importing import import_ray
from .local_files import LocalFolder

NAMESPACE = "seqtune"  # of the members' names: a device is in one fleet at a time
STORE_BYTES = 80_000_000  # of Ray's object store for a local fleet; messages are small, and 75 MB is the least it takes
LOOPBACK = "127."
GONE = "the Ray cluster does not answer any more"
GONE_SECONDS = 30.0  # without the head; after 60 Ray ends the process of the driver
HEAD_SECONDS = 2.0  # for a connection to the head
CLOSE_SECONDS = 5.0  # for Ray's own end where its head is gone
WORDS = {"ActorDiedError": "its process or its node is gone", "ActorUnavailableError": "it cannot be reached",
         "NodeDiedError": "its node is gone"}  # type of Ray's errors, which are long -> what it means


@dataclass(frozen=True, slots=True)
class Offer:
    """A node's devices of one backend."""

    node: str  # Ray's identity of the node
    host: str
    count: int
    resources: tuple[tuple[str, float], ...]  # that each member takes


class RayCluster:
    """A connection to Ray. Closing it ends what it started."""

    def __init__(self, address: FleetAddress, backend: str, import_ray: Callable[[bool], Any] = import_ray,
                 check: Callable[[FleetAddress], None] = FleetAddress.check,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """Connect. Raises MisuseError where Ray is missing or no cluster answers."""
        self.address, self.backend = address, backend
        self._clock = clock
        self._folder: LocalFolder | None = None
        self._head: tuple[str, int] | None = None
        self._gone_since = math.inf  # seconds of the monotonic clock, since when the head does not answer
        self.ray = import_ray(bool(address.local))
        self._own = not self.ray.is_initialized()
        if self._own:
            check(address)
            terminate = signal.getsignal(signal.SIGTERM)
            try:
                self._start() if address.local else self._connect()
                self._head = self._find_head()
            except BaseException:
                self.close()
                raise
            finally:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGTERM, terminate)  # Ray's handler would end the program without a word
        elif address.local:
            raise MisuseError(f"--fleet {address.text}: this process uses a Ray cluster already; use `auto`")

    def offers(self) -> list[Offer]:
        """The devices of the living nodes; none while the head does not answer.

        Raises SeqtuneError if the cluster is gone.
        """
        if not self._head_answers():
            return []
        try:
            nodes = self.ray.nodes()
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.lost(error) from None
        return [offer for node in nodes if node["Alive"] and (offer := _offer(node, self.backend)) is not None]

    def close(self) -> None:
        """Disconnect; a local fleet's processes end."""
        if self._own:
            # Without its head, Ray waits for longer than the process lives.
            ending = threading.Thread(target=self.ray.shutdown, daemon=True)
            ending.start()
            ending.join(CLOSE_SECONDS if self.is_gone else None)
        if self._folder is not None:
            self._folder.remove()

    @property
    def is_gone(self) -> bool:
        """Whether the head did not answer when it was last asked."""
        return self._gone_since < math.inf

    @property
    def is_silent(self) -> bool:
        """Whether calls of Ray would only wait: the head is gone, and all messages pass through it."""
        return self.is_gone and self.ray.util.client.ray.is_connected()

    def lost(self, error: Exception) -> SeqtuneError:
        """Note that the cluster is gone, as an error of Ray shows; return the error for the user."""
        self._gone_since = min(self._gone_since, self._clock())
        return SeqtuneError(f"{GONE}: {reason_of(error)}")

    def _find_head(self) -> tuple[str, int] | None:
        """Host and port of the head: of its client server, or of its store, which every node needs."""
        if self.ray.util.client.ray.is_connected():
            return self.address.head
        host, _, port = self.ray.get_runtime_context().gcs_address.rpartition(":")
        return host.strip("[]"), int(port)

    def _head_answers(self) -> bool:
        """Whether the head accepts connections. Raises SeqtuneError if it has not for GONE_SECONDS."""
        if self._head is None:
            return True
        try:
            socket.create_connection(self._head, HEAD_SECONDS).close()
        except OSError as error:
            self._gone_since = min(self._gone_since, self._clock())
            if self._clock() - self._gone_since > GONE_SECONDS:
                raise SeqtuneError(f"{GONE}: its head at {self._head[0]}:{self._head[1]} has not answered for "
                                   f"{GONE_SECONDS:.0f} s ({error.strerror or error})") from None
            return False
        self._gone_since = math.inf
        return True

    def _start(self) -> None:
        """Start Ray on this machine, on the loopback address alone."""
        self._folder = LocalFolder()
        count = self.address.local
        on_gpus = self.backend in GPU_BACKENDS
        try:
            self.ray.init(
                address="local", num_cpus=count, resources={} if on_gpus else {f"seqtune_{self.backend}": count},
                include_dashboard=False, object_store_memory=STORE_BYTES, logging_level=logging.CRITICAL,
                log_to_driver=False, configure_logging=False, namespace=NAMESPACE, _temp_dir=str(self._folder.path))
        except Exception as error:
            raise UnavailableError(f"Ray does not start here: {reason_of(error)}") from None
        addresses = {node["NodeManagerAddress"] for node in self.ray.nodes()}
        if not all(address.startswith(LOOPBACK) for address in addresses):
            raise UnavailableError(
                f"Ray listens on {', '.join(sorted(addresses))}, because this process imported it before; call tune "
                "before anything imports Ray, or start a cluster yourself and use `auto`")
        if on_gpus and (gpus := sum(offer.count for offer in self.offers())) < count:
            raise UnavailableError(f"--fleet {self.address.text}: this machine has {gpus} GPUs that Ray finds, and "
                                   "each member has one of its own")

    def _connect(self) -> None:
        text = self.address.text
        try:
            self.ray.init(address=text, namespace=NAMESPACE, logging_level=logging.CRITICAL, log_to_driver=False,
                          configure_logging=False)
        except Exception as error:
            raise MisuseError(
                f"no Ray cluster answers at {text}: start one (ray start --head), or check the address and the token "
                f"(the head's ~/.ray/auth_token): {reason_of(error)}") from None


def _offer(node: Mapping[str, Any], backend: str) -> Offer | None:
    """The offer of a node to a backend; None if it has no such device."""
    resources = node["Resources"]
    word = f"seqtune_{backend}"
    gpus = int(resources.get("GPU", 0)) if backend in GPU_BACKENDS else 0
    count = int(resources.get(word, gpus))
    if count < 1:
        return None
    taken = {**({word: 1.0} if word in resources else {}), **({"GPU": 1.0} if gpus else {})}
    return Offer(node["NodeID"], node["NodeManagerHostname"], count, tuple(taken.items()))


def reason_of(error: Exception) -> str:
    """Why a call of Ray failed, in one line, without Ray's advice of many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return WORDS.get(type(error).__name__) or one_line(lines[0] if lines else type(error).__name__, 200)
