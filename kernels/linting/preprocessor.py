"""Preprocessor: a source after the C preprocessor of this machine, as bytes in which only words and signs count.

A source comes here with the files of its folder in the places of their `#include` lines; the others are left out, so
that the preprocessor reads no file. Its time, memory and output are bounded, since macros can grow without end.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NAMES = ("cc", "gcc", "clang", "cpp")  # the first that is installed is taken
SECONDS = 5
_LIMITS = f'ulimit -t {SECONDS}; ulimit -v 1000000; ulimit -f 65536; exec "$@"'  # seconds, kB, blocks of 512 bytes
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b|\b_Pragma\b", re.MULTILINE)  # compilers expand macros in its line


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """An installed C preprocessor."""

    path: str

    @property
    def name(self) -> str:
        """The command, as a user knows it."""
        return f"{os.path.basename(self.path)} -E"

    @classmethod
    def installed(cls) -> Preprocessor | None:
        """The first of NAMES that this machine has; None if it has none, or no shell to bound it."""
        path = next(filter(None, map(shutil.which, NAMES)), None)
        return None if path is None or shutil.which("sh") is None else cls(path)

    def digest(self, language: str, text: str, options: Iterable[str] = (),
               macros: Mapping[str, str] | None = None) -> bytes | None:
        """A digest of a source after preprocessing; None if that fails, so also for a source with an `#error`.

        Of the compiler's `options`, those of the preprocessor (-D, -U) count; `macros` stand beside them.
        """
        words = [self.path, "-E", "-P", "-w", "-undef", "-nostdinc", "-x", "c++" if language == "cuda" else "c",
                 *(option for option in options if option.startswith(("-D", "-U"))),
                 *(f"-D{name}={value}" for name, value in (macros or {}).items()), "-"]
        plain = _PRAGMA.sub(" seqtune_pragma ", _INCLUDE.sub("", text))
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(["sh", "-c", _LIMITS, "sh", *words], input=plain.encode(), stdout=output,
                                      stderr=subprocess.DEVNULL, timeout=2 * SECONDS, check=False,
                                      env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"})
            except (OSError, subprocess.TimeoutExpired):
                return None
            if done.returncode:
                return None
            output.seek(0)
            return hashlib.sha256(b" ".join(output.read().split())).digest()
