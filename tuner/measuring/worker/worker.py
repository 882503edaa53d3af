"""The measuring worker: a process of its own that opens one backend on one device, so that a kernel may crash or hang.

`python -m seqtune.tuner.measuring.worker.worker` exchanges JSON lines with its parent (`runner`), one object per line:

    parent: {device, backend, libraries, kernels, path}  first: the parent's libraries, as `libraries.messages` writes
                                                        them; `backend` is null and `kernels` empty except in tests
    worker: {ready: true, build_allowance: seconds} or {error: text, misuse: false}
    parent: {do: "measure", problem, kernel, configurations, options, best, failed}
    worker: {preparing: text, failed: null}             before a reference computes the expected outputs
    worker: {preparing: text, failed: [text...]}        before the default configuration or a stand-in does; `failed`,
                                                        also of a request, says why those before it failed
    worker: {prepared: true, note: text}, then for each configuration {built: true, resources, allowance} and
                                                        {measurement}, then {done}
    parent: {do: "compare", problem, entries: [[kernel, configuration]...], rounds, options, failed}
    worker: {prepared: true, note: text}, then {at: index, resources, allowance} before each step, then
                                                        {compared: [...]} and {done}
    parent: {do: "cancel"}                              the worker stops after the current configuration; so it does
                                                        at the planned end of the request
    worker: {error: text, misuse: bool}                 instead of {done}: the request cannot be answered; `misuse`
                                                        tells that the user's input is wrong
    worker: {warning: text}                             at any time: a SeqtuneWarning, which the parent issues

`resources` are those of the executable (a ResourceUsage), or null where they are not known or it is not built yet;
`allowance` is the seconds that it may run even where the options allow less, for programs with limits of their own.

From a missing reply the parent infers which configuration crashed or hung. The process ends when its input ends.
"""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, SeqtuneError, SeqtuneWarning, UnavailableError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.messages import use_messages
from seqtune.kernels.libraries.table import use
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace

from ...backends.backend import (
    Backend,
    BuildError,
    DeviceLost,
    Executable,
    LaunchError,
    SelfChecked,
    build_executable,
    open_backend,
)
from ...processes import die_with_parent
from ..expected_outputs import Expectation, NoExpectation, prepare_arrays, prepare_outputs
from ..pace import Pace
from ..timing import Options, check_and_compare, check_and_time, measured, prepare

Message = dict[str, Any]

_LONGEST_ERROR = 1000  # characters: problem, kernel and configuration beside a compiler's message


class Worker:
    """Answers requests, and keeps the operands and the reference of the current problem."""

    def __init__(self, hello: Message, send: Callable[[Message], None], cancelled: Callable[[], bool]) -> None:
        self.device = Device.from_json(hello["device"])
        self.send = send
        self.cancelled = cancelled
        factory = resolve(hello["backend"]) if hello["backend"] else open_backend
        assert callable(factory)
        self.backend: Backend = factory(self.device)
        self._pace = Pace(self.backend.reference_work)
        self._prepared: tuple[Problem, Operands, Expectation] | None = None
        self._spaces: dict[str, SearchSpace] = {}

    def answer(self, request: Message) -> None:
        """Send all replies to one request."""
        problem, options = Problem.from_json(request["problem"]), Options.from_json(request["options"])
        self._pace.begin(min(options.planned, options.budget))
        operands, expected, note = self._prepare(problem, request["failed"])
        self.send({"prepared": True, "note": note})
        if request["do"] == "measure":
            best = math.inf if request["best"] is None else request["best"]
            for settings in request["configurations"]:
                if self.cancelled() or self._pace.is_over:
                    break
                configuration = Configuration.of(request["kernel"], settings)
                measurement = self._measure(problem, configuration, operands, expected, options, best)
                best = min(best, measurement.seconds)
                self.send({"measurement": measurement.to_json()})
        else:
            self._compare(problem, request, operands, expected, options)
        self.send({"done": True})

    def _prepare(self, problem: Problem, failed: Sequence[str]) -> tuple[Operands, Expectation, str]:
        """Operands and expected outputs, and a note on the latter if they were not known before."""
        note = ""
        if self._prepared is None or self._prepared[0] != problem:
            self._prepared = None  # frees the old operands before making the new ones
            self._spaces = {}
            operands, expected, note = self._arrays(problem, failed)
            self._prepared = problem, operands, expected
        return self._prepared[1], self._prepared[2], note

    def _arrays(self, problem: Problem, failed: Sequence[str]) -> tuple[Operands, Expectation, str]:
        if self.backend.checks_itself:
            return {}, NoExpectation(), ""
        if not operation(problem.type).declares_tensors:
            return *prepare(problem), ""
        arrays, tensors = prepare_arrays(problem)
        return arrays, *prepare_outputs(
            problem, arrays, tensors, self.backend,
            lambda step, before: self.send({"preparing": step, "failed": before}), failed)

    def _build(self, problem: Problem, configuration: Configuration) -> Executable | Measurement:
        try:
            name = configuration.kernel
            if name not in self._spaces:
                self._spaces[name] = SearchSpace(kernel(name), problem, self.device)
            space = self._spaces[name]
            reason = space.why_not(configuration)
            if reason is not None:
                return Measurement(Status.CONSTRAINTS, message=one_line(reason))
            return build_executable(self.backend, problem, space.kernel, configuration)
        except BuildError as error:
            return Measurement(Status.COMPILE, message=one_line(error))
        except LaunchError as error:
            return Measurement(Status.RUNTIME, message=one_line(error), resources=error.resources)
        except UnavailableError:  # a library that is not installed: no configuration can run
            raise
        except SeqtuneError as error:
            return Measurement(Status.CONSTRAINTS, message=one_line(error))
        except DeviceLost:
            raise
        except Exception as error:  # a mistake in a kernel's generator fails the configuration, not the run
            return Measurement(Status.COMPILE, message=_reason(error))

    def _measure(self, problem: Problem, configuration: Configuration, operands: Operands, expected: Expectation,
                 options: Options, best: float) -> Measurement:
        executable = self._build(problem, configuration)
        if isinstance(executable, Measurement):
            return executable
        self.send({"built": True, **_needs(executable)})
        try:
            return check_and_time(executable, operands, expected, options, best, self._pace)
        except DeviceLost:
            raise
        except Exception as error:
            return measured(executable, Status.RUNTIME, message=one_line(f"{type(error).__name__}: {error}"))
        finally:
            executable.close()

    def _compare(self, problem: Problem, request: Message, operands: Operands, expected: Expectation,
                 options: Options) -> None:
        executables: list[Executable | None] = []
        failed: dict[int, Measurement] = {}
        for index, (name, settings) in enumerate(request["entries"]):
            self.send({"at": index, **_needs(None)})
            result = self._build(problem, Configuration.of(name, settings))
            if isinstance(result, Measurement):
                failed[index] = result
            executables.append(None if isinstance(result, Measurement) else result)
        try:
            timed = check_and_compare(
                executables, operands, expected, request["rounds"], options,
                lambda index: self.send({"at": index, **_needs(executables[index])}), self._pace)
        finally:
            for executable in executables:
                if executable is not None:
                    executable.close()
        results = [failed[index] if measurement is None else measurement for index, measurement in enumerate(timed)]
        self.send({"compared": [measurement.to_json() for measurement in results]})


def main() -> None:
    """Answer the requests on standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    die_with_parent()
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # output of libraries goes to standard error, never into the protocol

    def send(message: Message) -> None:
        channel.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    show = warnings.showwarning

    def show_or_send(message: Warning | str, category: type[Warning], filename: str, lineno: int,
                     file: TextIO | None = None, line: str | None = None) -> None:
        if issubclass(category, SeqtuneWarning):
            send({"warning": one_line(str(message), _LONGEST_ERROR)})
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_or_send
    requests: queue.SimpleQueue[Message] = queue.SimpleQueue()
    cancel = threading.Event()

    def listen() -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("do") == "cancel":
                cancel.set()
            else:
                cancel.clear()  # an earlier cancel came after its request had ended
                requests.put(message)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    hello = requests.get()
    sys.path.extend(path for path in hello["path"] if path not in sys.path)
    try:
        use_messages(hello["libraries"])
        _use_planted(hello["kernels"])
        worker = Worker(hello, send, cancel.is_set)
    except Exception as error:
        send({"error": _reason(error), "misuse": False})
        return
    send({"ready": True, "build_allowance": worker.backend.build_allowance})
    while True:
        try:
            worker.answer(requests.get())
        except DeviceLost as error:  # the parent sees a crash, and starts a new worker
            print(one_line(error), file=sys.stderr, flush=True)
            os._exit(1)
        except Exception as error:
            send({"error": _reason(error, _LONGEST_ERROR), "misuse": isinstance(error, MisuseError)})


def _use_planted(kernels: dict[str, str]) -> None:
    """Use kernels that a test names, each in a library of the first part of its name."""
    libraries = {name: name.partition(".")[0] for name in kernels}
    for library in dict.fromkeys(libraries.values()):
        use(Library(library, {name: reference for name, reference in kernels.items() if libraries[name] == library}))


def _needs(executable: Executable | None) -> Message:
    """The resources and the time allowance of an executable for a message."""
    resources = None if executable is None else executable.resources
    return {"resources": None if resources is None else {**resources.to_json()},
            "allowance": executable.run_allowance if isinstance(executable, SelfChecked) else 0.0}


def _reason(error: Exception, longest: int = 300) -> str:
    """The message of an error in one line, with the name of its type unless seqtune raised it."""
    return one_line(error if isinstance(error, SeqtuneError) else f"{type(error).__name__}: {error}", longest)


if __name__ == "__main__":
    main()
