"""Starts programs in processes of their own that have the large libraries already: importing those takes seconds.

    python -m tests.support.programs.server

Each line of the standard input is a JSON object with `arguments` (a module, and what follows it on the command line)
and `folder`, in which the program's output goes to the files `out` and `errors`. The answer is its exit status.

Nothing of seqtune or its benchmarks is imported here, so every program imports those as a new interpreter does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import sys
import traceback

import numpy  # noqa: F401 - these imports are what a program need not wait for
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import xgboost  # noqa: F401

with contextlib.suppress(ModuleNotFoundError):
    import torch._dynamo  # noqa: F401


def run(arguments: list[str], folder: str) -> None:
    """Become the program: `python -m` with these arguments."""
    for descriptor, name in ((0, os.devnull), (1, f"{folder}/out"), (2, f"{folder}/errors")):
        opened = os.open(name, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, descriptor)
    sys.argv = arguments
    code = 0
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    leave(code)


def leave(code: int) -> None:
    """End this process at once: to take those libraries down in order takes longer than most programs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    """Start a program for each line, one after the other."""
    gc.freeze()  # a program's collections leave alone what it did not make
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if not child:
            run(request["arguments"], request["folder"])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
    leave(0)
