"""RayCluster: the connection to Ray, started here for `local:N` or running elsewhere, and the devices that it offers.

A node offers devices by resources: `seqtune_llvm: 1` is one device of the backend llvm. GPUs that Ray has found are
offered to the backends of GPUs without such words.
"""

from __future__ import annotations

import logging
import math
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seqtune.errors import MisuseError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS

NAMESPACE = "seqtune"  # of the members' names: a device is in one fleet at a time
STORE_BYTES = 80_000_000  # of Ray's object store for a local fleet; messages are small, and 75 MB is the least it takes
LONGEST = 30  # characters of the folder for temporary files: the paths of Ray's sockets have at most 107
GONE = "the Ray cluster does not answer any more"
GONE_SECONDS = 30.0  # without the head; after 60 Ray ends the process of the driver
CLOSE_SECONDS = 5.0  # for Ray's own end where its head is gone
WORDS = {"ActorDiedError": "its process or its node is gone", "ActorUnavailableError": "it cannot be reached",
         "NodeDiedError": "its node is gone"}  # type of Ray's errors, which are long -> what it means
MISSING = "a fleet needs Ray: pip install 'seqtune[fleet]'"

# Ray reads these when it is imported. The first one lets it use the loopback address alone, as it does on macOS.
# The third one keeps the members' priority: Ray's default, 15, lets any other work disturb their measurements.
_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0",
          "RAY_AUTH_TOKEN": secrets.token_hex(32)}
_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def import_ray(local: bool) -> Any:
    """Import Ray with its variables set, and keep it from printing. Raises MisuseError where it is not installed.

    What a user has to know of it comes as an error or as the reason of a member that left.
    """
    variables = _ALWAYS if local else {**_ALWAYS, "RAY_AUTH_MODE": "token"}
    os.environ.update({name: value for name, value in variables.items() if name not in os.environ})
    if local:
        os.environ.update(_LOCAL)
    imported = "ray" in sys.modules
    try:
        import ray
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "ray":
            raise MisuseError(MISSING) from None
        raise MisuseError(f"{MISSING} (Ray is installed without {error.name})") from None
    if imported:  # a program that has imported Ray itself keeps its messages
        return ray
    for name in ("ray", "ray.util.client.logsclient"):  # the second one does not propagate to the first
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
    warnings.filterwarnings("ignore", module=r"ray\b")
    ray._private.worker._worker_logs_enabled = False  # of the processes of nodes
    return ray


@dataclass(frozen=True, slots=True)
class Offer:
    """A node's devices of one backend."""

    node: str  # Ray's identity of the node
    host: str
    count: int
    options: dict[str, Any]  # Ray's, of the actor of a member


class RayCluster:
    """A connection to Ray. Closing it ends what it started."""

    def __init__(self, address: FleetAddress, backend: str, import_ray: Callable[[bool], Any] = import_ray,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """Connect. Raises MisuseError where Ray is missing or no cluster answers."""
        self.address, self.backend, self._clock = address, backend, clock
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of Ray's files
        self._head: tuple[str, int] | None = None  # of its client server, or of its store, which every node needs
        self._gone_since = math.inf  # seconds of the monotonic clock, since when the head does not answer
        self.ray = import_ray(bool(address.local))
        self._own = not self.ray.is_initialized()
        if self._own:
            address.check()
            terminate = signal.getsignal(signal.SIGTERM)
            try:
                self._start() if address.local else self._connect()
                if self.ray.util.client.ray.is_connected():
                    self._head = address.head
                else:
                    host, _, port = self.ray.get_runtime_context().gcs_address.rpartition(":")
                    self._head = host.strip("[]"), int(port)
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
        head = self._head
        if head is not None and (reason := refusal(head)):
            self._gone_since = min(self._gone_since, self._clock())
            if self._clock() - self._gone_since > GONE_SECONDS:
                raise SeqtuneError(f"{GONE}: its head at {head[0]}:{head[1]} has not answered for {GONE_SECONDS:.0f} s "
                                   f"({reason})")
            return []
        self._gone_since = math.inf
        try:
            nodes = self.ray.nodes()
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.lost(error) from None
        return [offer for node in nodes if node["Alive"] and (offer := self._offer(node)) is not None]

    def _offer(self, node: Mapping[str, Any]) -> Offer | None:
        """The offer of a node; None if it has no such device."""
        resources, word = node["Resources"], f"seqtune_{self.backend}"
        gpus = int(resources.get("GPU", 0)) if self.backend in GPU_BACKENDS else 0
        count = int(resources.get(word, gpus))
        if count < 1:
            return None
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        return Offer(node["NodeID"], node["NodeManagerHostname"], count, {
            "namespace": NAMESPACE, "num_cpus": 0, "num_gpus": min(1, gpus), "max_restarts": 0,
            "resources": {word: 1.0} if word in resources else {}, "scheduling_strategy": affinity})

    def close(self) -> None:
        """Disconnect; a local fleet's processes end."""
        if self._own:
            # Without its head, Ray waits for longer than the process lives.
            ending = threading.Thread(target=self.ray.shutdown, daemon=True)
            ending.start()
            ending.join(CLOSE_SECONDS if self.is_gone else None)
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def is_gone(self) -> bool:
        """Whether the head did not answer when it was last asked: calls of Ray may wait for it."""
        return self._gone_since < math.inf

    def lost(self, error: Exception) -> SeqtuneError:
        """Note that the cluster is gone, as an error of Ray shows; return the error for the user."""
        self._gone_since = min(self._gone_since, self._clock())
        return SeqtuneError(f"{GONE}: {reason_of(error)}")

    def _start(self) -> None:
        """Start Ray on this machine, on the loopback address alone."""
        base = tempfile.gettempdir()
        self._folder = tempfile.TemporaryDirectory(prefix="seqtune-ray-", dir=base if len(base) < LONGEST else "/tmp",
                                                   ignore_cleanup_errors=True)
        count = self.address.local
        on_gpus = self.backend in GPU_BACKENDS
        try:
            self.ray.init(
                address="local", num_cpus=count, resources={} if on_gpus else {f"seqtune_{self.backend}": count},
                include_dashboard=False, object_store_memory=STORE_BYTES, logging_level=logging.CRITICAL,
                log_to_driver=False, configure_logging=False, namespace=NAMESPACE, _temp_dir=self._folder.name)
        except Exception as error:
            raise UnavailableError(f"Ray does not start here: {reason_of(error)}") from None
        addresses = {node["NodeManagerAddress"] for node in self.ray.nodes()}
        if not all(address.startswith("127.") for address in addresses):
            raise UnavailableError(
                f"Ray listens on {', '.join(sorted(addresses))}, because this process imported it before; call tune "
                "before anything imports Ray, or start a cluster yourself and use `auto`")
        if on_gpus and (gpus := sum(offer.count for offer in self.offers())) < count:
            raise UnavailableError(f"--fleet {self.address.text}: this machine has {gpus} GPUs that Ray finds, and "
                                   "each member has one of its own")

    def _connect(self) -> None:
        try:
            self.ray.init(address=self.address.text, namespace=NAMESPACE, logging_level=logging.CRITICAL,
                          log_to_driver=False, configure_logging=False)
        except Exception as error:
            raise MisuseError(
                f"no Ray cluster answers at {self.address.text}: start one (ray start --head), or check the address "
                f"and the token (the head's ~/.ray/auth_token): {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Why a call of Ray failed, in one line, without Ray's advice of many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return WORDS.get(type(error).__name__) or one_line(lines[0] if lines else type(error).__name__, 200)


MOST_LOCAL = 64  # members on this machine: each is a process of about 150 MB
ANSWER_SECONDS = 2.0  # for a connection
FORMS = "local:2 (members on this machine), auto (the Ray cluster of this machine) or ray://HOST:PORT"

# Ray resolves what else RAY_ADDRESS may be.
_HEAD = re.compile(r"(?:ray://)?([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})", re.ASCII)


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
            address = cls(text)
            if text == "auto" or (kind == "ray" and address.head is not None):
                return address
        raise MisuseError(f"no fleet {text!r:.80}; give {FORMS}")

    @property
    def head(self) -> tuple[str, int] | None:
        """Host and port of the cluster's head, as the user or the variable RAY_ADDRESS names them; None if neither."""
        text = os.environ.get("RAY_ADDRESS", "") if self.text == "auto" else self.text
        named = None if self.local else _HEAD.fullmatch(text)
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
