"""RayCluster: the connection to Ray, started here for `local:N` or running elsewhere, and the devices that it offers.

A node offers devices by resources: `seqtune_llvm: 1` is one device of the backend llvm. GPUs that Ray has found are
offered to the backends of GPUs without such words.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seqtune.errors import MisuseError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.accelerators import BACKENDS as GPU_BACKENDS

from ..address import FleetAddress

NAMESPACE = "seqtune"  # of the members' names: a device is in one fleet at a time
STORE_BYTES = 80_000_000  # of Ray's object store for a local fleet; messages are small, and 75 MB is the least it takes
LOOPBACK = "127."
MISSING = "a fleet needs Ray: pip install 'seqtune[fleet]'"

# Ray reads these when it is imported. The first one lets it use the loopback address alone, as it does on macOS.
# The last one keeps the members' priority: Ray's default, 15, lets any other work disturb their measurements.
_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}
_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass(frozen=True, slots=True)
class Offer:
    """A node's devices of one backend."""

    node: str  # Ray's identity of the node
    host: str
    count: int
    resources: tuple[tuple[str, float], ...]  # that each member takes


@lru_cache(maxsize=1)
def _token() -> str:
    """The token of the local fleets of this process: Ray reads it once."""
    return secrets.token_hex(32)


def import_ray(local: bool) -> Any:
    """Import Ray with its variables set. Raises UnavailableError, as a misuse, where it is not installed."""
    os.environ.update({name: value for name, value in _ALWAYS.items() if name not in os.environ})
    if local:
        os.environ.update(_LOCAL | {"RAY_AUTH_TOKEN": _token()})
    else:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "ray":
            raise MisuseError(MISSING) from None
        raise MisuseError(f"{MISSING} (Ray is installed without {error.name})") from None
    return ray


class RayCluster:
    """A connection to Ray. Closing it ends what it started."""

    def __init__(self, address: FleetAddress, backend: str) -> None:
        """Connect. Raises MisuseError where Ray is missing or no cluster answers."""
        self.address = address
        self.backend = backend
        self._folder: str | None = None
        self.ray = import_ray(bool(address.local))
        self._own = not self.ray.is_initialized()
        if address.local:
            self._start()
        elif self._own:
            self._connect()

    def offers(self) -> list[Offer]:
        """The devices of the living nodes. Raises SeqtuneError if the cluster does not answer."""
        try:
            nodes = self.ray.nodes()
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise SeqtuneError(f"the Ray cluster does not answer any more: {_reason(error)}") from None
        return [offer for node in nodes if node["Alive"] and (offer := _offer(node, self.backend)) is not None]

    def nodes(self) -> list[Mapping[str, Any]]:
        """Ray's description of all nodes."""
        return list(self.ray.nodes())

    def close(self) -> None:
        """Disconnect; a local fleet's processes end."""
        if self._own:
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        """Start Ray on this machine, on the loopback address alone."""
        if not self._own:
            raise MisuseError(f"--fleet {self.address.text}: this process uses a Ray cluster already; use `auto`")
        # The paths of Ray's sockets have to be short (107 characters).
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="seqtune-", dir=base if len(base) < 30 else "/tmp")
        count = self.address.local
        gpus = self.backend in GPU_BACKENDS
        try:
            self.ray.init(
                address="local", num_cpus=count, resources={} if gpus else {f"seqtune_{self.backend}": count},
                include_dashboard=False, object_store_memory=STORE_BYTES, logging_level=logging.ERROR,
                log_to_driver=False, configure_logging=False, namespace=NAMESPACE, _temp_dir=self._folder)
        except Exception as error:
            self._fail(f"Ray does not start here: {_reason(error)}")
        except BaseException:
            self.close()
            raise
        addresses = {node["NodeManagerAddress"] for node in self.ray.nodes()}
        if not all(address.startswith(LOOPBACK) for address in addresses):
            self._fail(f"Ray listens on {', '.join(sorted(addresses))}, because this process imported it before; call "
                       "tune before anything imports Ray, or start a cluster yourself and use `auto`")
        if gpus:
            found = sum(offer.count for offer in self.offers())
            if found < count:
                self._fail(f"--fleet {self.address.text}: this machine has {found} GPUs that Ray finds, and each "
                           "member has one of its own")

    def _connect(self) -> None:
        text = self.address.text
        try:
            self.ray.init(address=text, namespace=NAMESPACE, logging_level=logging.ERROR, log_to_driver=False,
                          configure_logging=False)
        except Exception as error:
            self._fail(f"no Ray cluster answers at {text}: start one (ray start --head), or check the address and the "
                       f"token (the head's ~/.ray/auth_token): {_reason(error)}", MisuseError)

    def _fail(self, message: str, kind: type[SeqtuneError] = UnavailableError) -> None:
        self.close()
        raise kind(message) from None


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


def _reason(error: Exception) -> str:
    """Ray's message in one line, without its advice of many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[0] if lines else type(error).__name__, 200)
