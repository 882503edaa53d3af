"""Programs: run `python -m MODULE ...` in a process that need not import large libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.paths import ROOT


class Programs:
    """Runs programs one after the other; see `server`. Close it, or use it in a `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = subprocess.Popen([sys.executable, "-m", "tests.support.programs.server"], cwd=ROOT,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, in the root of the repository."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps({"arguments": [module, *arguments], "folder": str(self.folder)}), file=self._server.stdin,
              flush=True)
        code = int(self._server.stdout.readline())
        texts = [(self.folder / name).read_text() for name in ("out", "errors")]
        return subprocess.CompletedProcess([module, *arguments], code, *texts)

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        self._server.communicate()
