"""Mount namespaces: a run sees other mounts than the rest of the machine, by util-linux's `unshare`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

NOBODY = 65534
_DEVICES = "null zero full random urandom tty"


def no_shm() -> str:
    """Shell commands: a /dev with the usual devices and without shm."""
    return f"""
        new=$(mktemp -d) && mount -t tmpfs -o mode=755 none "$new"
        for name in {_DEVICES}; do touch "$new/$name" && mount --bind "/dev/$name" "$new/$name"; done
        ln -s /proc/self/fd "$new/fd"
        for name in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${{name%:*}}" "$new/${{name#*:}}"; done
        mkdir "$new/pts" && mount --rbind /dev/pts "$new/pts" && ln -s pts/ptmx "$new/ptmx"
        mount --rbind "$new" /dev
    """


def no_pocl() -> str:
    """Shell commands: every file that points OpenCL's loader to a runtime is empty."""
    folders = (Path(sysconfig.get_path("purelib")), Path("/etc/OpenCL/vendors"))
    files = [file for folder in folders for file in folder.rglob("*.icd")]
    return "\n".join(f"mount --bind /dev/null {shlex.quote(str(file))}" for file in files) or ":"


def readable_python() -> str:
    """Shell commands: other users may pass the folders above this Python, which may lie in root's home."""
    needed = {Path(path).resolve() for path in (sys.base_prefix, sys.prefix)}
    commands = []
    for path in sorted(needed):
        closed = next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
        if closed is not None:
            commands.append(f"""
                kept=$(mktemp -d) && mount --bind {shlex.quote(str(path))} "$kept"
                mount -t tmpfs -o mode=755 none {shlex.quote(str(closed))}
                mkdir -p {shlex.quote(str(path))} && mount --move "$kept" {shlex.quote(str(path))}
            """)
    return "\n".join(commands) or ":"


def wrapped(commands: str, argument_list: list[str], other_user: bool = False) -> list[str]:
    """A command line that runs the arguments behind these mounts, and as `nobody` if wanted."""
    drop = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups " if other_user else ""
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    return [*private, "sh", "-ec", f'{commands}\nexec {drop}"$@"', "sh", *argument_list]


def unavailable() -> str | None:
    """The reason in one line why this user cannot have a mount namespace, or None."""
    if sys.platform != "linux":
        return "mount namespaces are Linux's"
    try:
        command = wrapped("mount -t tmpfs none /mnt", ["true"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["unshare failed"])[-1]
