"""Import Ray: the variables that it reads, its token, and its own messages, which a user of seqtune does not need."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import warnings
from pathlib import Path
from typing import Any

from seqtune.errors import MisuseError

MISSING = "a fleet needs Ray: pip install 'seqtune[fleet]'"
NO_TOKEN = ("no token of Ray on this machine: copy the head's ~/.ray/auth_token to here, or set RAY_AUTH_TOKEN_PATH to "
            "it; where you trust the whole network and the cluster has no token, set RAY_AUTH_MODE=disabled")

# Ray reads these when it is imported. The first one lets it use the loopback address alone, as it does on macOS.
# The last one keeps the members' priority: Ray's default, 15, lets any other work disturb their measurements.
_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}
_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_TOKEN = secrets.token_hex(32)  # of the local fleets of this process: Ray reads it once


def import_ray(local: bool) -> Any:
    """Import Ray with its variables set. Raises MisuseError where it is not installed."""
    os.environ.update({name: value for name, value in _ALWAYS.items() if name not in os.environ})
    if local:
        os.environ.update(_LOCAL | {"RAY_AUTH_TOKEN": _TOKEN})
    else:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    imported = "ray" in sys.modules
    try:
        import ray
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "ray":
            raise MisuseError(MISSING) from None
        raise MisuseError(f"{MISSING} (Ray is installed without {error.name})") from None
    if not imported:
        _silence(ray)
    return ray


def check_token() -> None:
    """Raise MisuseError if the cluster asks for a token and this machine has none."""
    if os.environ.get("RAY_AUTH_MODE") != "token" or os.environ.get("RAY_AUTH_TOKEN"):
        return
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    try:
        empty = not path.read_bytes().strip()
    except OSError:
        empty = True
    if empty:
        raise MisuseError(NO_TOKEN)


def _silence(ray: Any) -> None:
    """Keep Ray from printing: its loggers, its warnings, and what it repeats of the processes of nodes.

    What a user has to know of them comes as an error or as the reason of a member that left. A program that has
    imported Ray itself keeps Ray's messages.
    """
    for name in ("ray", "ray.util.client.logsclient"):  # the second one does not propagate to the first
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
    warnings.filterwarnings("ignore", module=r"ray\b")
    ray._private.worker._worker_logs_enabled = False
