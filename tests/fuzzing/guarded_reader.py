"""GuardedReader: reads one spoilt input after another in a process of its own, and reports what a reader must not do.

A reader may return or raise a SeqtuneError of one line. Anything else is a finding: another exception, more than one
line, more than a second of processor time, a file opened for writing outside the input's folder, a process or code that
is started, memory beyond a bound. An end of the process is a finding of the parent's.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from seqtune.errors import SeqtuneError, SeqtuneWarning

from .mutations import mutate_bytes
from .targets import TARGETS, Target

LONGEST = 1.0  # seconds of processor time for an input
MEMORY = 1_000_000_000  # bytes that an input may take beyond what the process has
LONGEST_MESSAGE = 2000  # characters
_STARTED = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class",
            "socket.connect", "socket.bind"}
_WRITTEN = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}


class Hang(BaseException):
    """An input took too long; not an Exception, so that no reader catches it."""


class Watch:
    """Notes what Python's audit events tell while it is on."""

    def __init__(self, folder: Path) -> None:
        self.on = False
        self.seen: list[str] = []
        self._folder = str(folder)
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in _STARTED:
            self.seen.append(f"{event} {str(arguments)[:80]}")
        elif event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (
                mode is None and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if writes and isinstance(path, str) and not os.path.abspath(path).startswith((self._folder, "/dev/null")):
                self.seen.append(f"writes {path[-80:]}")
        elif event in _WRITTEN and not os.path.abspath(str(arguments[0])).startswith(self._folder):
            self.seen.append(f"{event} {str(arguments[0])[-80:]}")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Hang after `seconds` of processor time."""
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def spoil(target: Target, seed: int, files: dict[str, bytes]) -> bytes:
    """The spoilt content of the target's file: by structure or by bytes, half of the inputs each."""
    random = Random(f"{target.name} {seed}")
    content = files[target.file]
    if target.structure is not None and random.random() < 0.5:
        content = target.structure(content, random)
        if random.random() < 0.8:
            return content
    return mutate_bytes(content, random, list(files.values()))


def finding_of(target: Target, folder: Path, watch: Watch) -> str | None:
    """Read the folder's input. Returns what is wrong, or None."""
    watch.seen.clear()
    begin = time.process_time()
    fault = None
    try:
        with time_limit(2 * LONGEST), warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            watch.on = True
            target.read(folder)
        strange = [str(note.message) for note in noted
                   if not issubclass(note.category, SeqtuneWarning | ResourceWarning)]
        fault = f"warns {strange[0][:200]!r}" if strange else None
    except SeqtuneError as error:
        if len(str(error).splitlines()) > 1 or len(str(error)) > LONGEST_MESSAGE:
            lines = len(str(error).splitlines())
            fault = f"a message of {lines} lines, {len(str(error))} characters: {str(error)[:100]!r}"
    except Hang:
        fault = "hangs"
    except MemoryError:
        fault = "takes too much memory"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"{type(error).__name__}: {str(error)[:120]!r} at {Path(last.filename).name}:{last.lineno}"
    finally:
        watch.on = False
    if watch.seen:
        fault = watch.seen[0]
    if fault is None and time.process_time() - begin > LONGEST:
        fault = f"takes {time.process_time() - begin:.1f} s"
    return fault


def main() -> None:
    """Read inputs: `python -m tests.fuzzing.guarded_reader FIRST END FOLDER TARGET ...`.

    The number of an input is printed before it is read, so that the parent knows which one ended the process; then its
    finding, if there is one, as a line of JSON.
    """
    first, end, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).resolve()
    watch = Watch(folder)
    for name in sys.argv[4:]:
        read_inputs(TARGETS[name], range(first, end), folder / name, watch)
    sys.stdout.flush()
    os._exit(0)  # Arrow's threads may end a process that ends while they start, which is no input's fault


def read_inputs(target: Target, seeds: range, folder: Path, watch: Watch) -> None:
    """Read the inputs of one target in the folder."""
    files = target.files()
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    target.read(folder)  # sound; imports what it needs
    with open("/proc/self/statm", encoding="ascii") as memory:
        size = int(memory.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    for seed in seeds:
        content = spoil(target, seed, files)
        (folder / target.file).write_bytes(content)
        print(seed, flush=True)
        fault = finding_of(target, folder, watch)
        if fault is not None:
            print(json.dumps({"target": target.name, "seed": seed, "finding": fault}), flush=True)
            (folder.parents[1] / f"{target.name}-{seed}").write_bytes(content)


if __name__ == "__main__":
    main()
