"""CubinsProcess: the program of the process that compiles kernels ahead, on all cores (`CubinsAhead` starts it).

It reads lines of JSON: the device, then one source each. It answers each source with its key and whether the cache has
its image now. It ends at the end of its input, also while NVRTC compiles or hangs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from seqtune.errors import SeqtuneError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.implementation import KernelSource

from ...processes import processors
from ..backend import BuildError
from .compiler import CubinCompiler

Answer = Callable[[dict[str, Any]], object]
Compile = Callable[[KernelSource], object]  # into the cache, in several threads at once; raises BuildError


def serve(lines: Iterable[str], open_compiler: Callable[[Device], Compile], answer: Answer) -> None:
    """Compile the sources in the lines after the first one. Raises what opening the compiler raises."""
    waiting = iter(lines)
    first = next(waiting, None)
    if first is None:
        return
    compile_source = open_compiler(Device.from_json(json.loads(first)))

    def compile_one(key: str, source: KernelSource) -> None:
        """Compile one source and answer."""
        compiled = False
        try:
            with suppress(BuildError):  # the worker meets it again, and records it
                compile_source(source)
                compiled = True
        finally:
            answer({"key": key, "compiled": compiled})

    threads = ThreadPoolExecutor(processors())
    for line in waiting:
        request = json.loads(line)
        threads.submit(compile_one, request["key"], KernelSource(request["text"], tuple(request["options"])))
    threads.shutdown(wait=False, cancel_futures=True)


def main() -> None:
    """Serve standard input; the process ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: the one that reads answers it
    channel = os.dup(1)
    os.dup2(2, 1)  # output of libraries goes to standard error, never between the answers

    def answer(message: dict[str, Any]) -> None:
        """Write one line; a line is shorter than what a pipe takes at once, so threads' lines do not mix."""
        os.write(channel, json.dumps(message).encode() + b"\n")

    code = 0
    try:
        serve(sys.stdin, lambda device: CubinCompiler(device).compile, answer)
    except SeqtuneError as error:
        print(one_line(error), file=sys.stderr, flush=True)
        code = 1
    os._exit(code)  # without waiting for the threads: NVRTC cannot be interrupted


if __name__ == "__main__":
    main()
