"""WorkerRequest: one request to a measuring worker with its replies, from preparing the operands to the last answer.

A request is under way until the worker says that it is done, dies, is late and therefore killed, or calls the request
itself a mistake. Which of these happened is its state, so a caller never has to guess from an exception.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from types import TracebackType

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem

from .timing import Options
from .worker_process import START_SECONDS, Message, WorkerDied, WorkerLate, WorkerProcess

SLOWEST_GFLOPS = 1.0  # a kernel slower than this on a large problem is given up
FEWEST_LAUNCHES = 3  # the check, and a sample or two of a kernel that slow
CANCEL_SECONDS = 5.0  # the longest that a cancelled worker may go on: the user waits


class State(Enum):
    """How far a request is."""

    UNDER_WAY = "under way"
    DONE = "done"  # answered in full, refused by the worker, or given up by the parent
    LATE = "late"  # no answer within its limit; the worker was killed
    DEAD = "dead"  # the worker died


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a worker that does not answer is given up."""

    prepare: float  # operands and reference
    build: float
    run: float

    @classmethod
    def of(cls, problem: Problem, options: Options, build_allowance: float = 0.0) -> Limits:
        """The limits of a problem; `build_allowance` is its backend's."""
        flop = problem.names().get("flop")
        launch = flop / (SLOWEST_GFLOPS * 1e9) if isinstance(flop, int) else 0.0
        run = options.run_seconds + FEWEST_LAUNCHES * launch
        prepare = START_SECONDS + Options().run_seconds + FEWEST_LAUNCHES * launch
        return cls(prepare, max(options.build_seconds, build_allowance), run)


class WorkerRequest:
    """A request under way. Leaving its context cancels what is not yet answered.

    A lost worker raises nothing: `state` becomes LATE or DEAD, and `failure` says so in a measurement.
    """

    def __init__(self, worker: WorkerProcess, problem: Problem, limits: Limits, message: Message) -> None:
        self.state = State.UNDER_WAY
        self.prepared = False  # whether operands and reference are made
        self.fresh = True  # whether the worker had measured nothing before what it is working on
        self.at = -1  # the comparison's entry that the worker works on
        self._worker, self._problem, self._limits, self._message = worker, problem, limits, message
        self._cause = ""

    def __enter__(self) -> WorkerRequest:
        try:
            self._worker.send(self._message)
        except WorkerDied:
            self._lose(State.DEAD)
        self.prepared = self._reply(self._limits.prepare) is not None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.state is State.UNDER_WAY:
            self.state = State.DONE
            if self._message["do"] == "measure":
                self._cancel()
            else:
                self._worker.kill()  # a comparison cannot be cancelled

    def measurement(self) -> Measurement | None:
        """The next configuration's measurement; None where the request is over."""
        message = self._reply(self._limits.build)
        if message is not None and "built" in message:
            message = self._reply(self._limits.run)
        if message is None:
            return None
        measurement = Measurement.from_json(message["measurement"])
        self._worker.answered += 1
        if measurement.damaged:  # the next ones need another process
            self.state = State.DONE
            self._worker.kill()
        return measurement

    def comparison(self) -> list[Measurement] | None:
        """All measurements of a comparison; None where the request ended before."""
        while (message := self._reply(max(self._limits.build, self._limits.run))) is not None:
            if "compared" in message:
                self.finish()
                return [Measurement.from_json(measurement) for measurement in message["compared"]]
            self.at = message["at"]
        return None

    def finish(self) -> None:
        """Wait for the worker's word that it is done. A worker lost after its last answer is nobody's failure."""
        self._reply(self._limits.build)
        self.state = State.DONE

    def failure(self) -> Measurement:
        """What happened to the configuration that the lost worker was working on."""
        if self.state is State.DEAD:
            return Measurement(Status.CRASH, message=self._cause)
        return Measurement(Status.TIMEOUT, message=(
            f"no answer within {self._limits.build:.0f} s of building or {self._limits.run:.0f} s of running"))

    def unprepared(self) -> SeqtuneError:
        """The error where the operands or the reference cannot be made: no configuration is to blame."""
        reason = self._cause or f"not within {self._limits.prepare:.0f} s"
        return SeqtuneError(
            f"the operands of {self._problem.brief()} cannot be prepared ({reason}): is it too large here?")

    def _reply(self, seconds: float) -> Message | None:
        if self.state is not State.UNDER_WAY:
            return None
        try:
            return self._worker.receive(seconds)
        except WorkerLate:
            self._lose(State.LATE)
        except WorkerDied:
            self._lose(State.DEAD)
        except SeqtuneError:  # the request is at fault; the worker has forgotten it
            self.state = State.DONE
            raise
        return None

    def _lose(self, state: State) -> None:
        self.state, self.fresh = state, self._worker.answered == 0
        if state is State.DEAD:
            self._cause = self._worker.post_mortem()
        self._worker.kill()

    def _cancel(self) -> None:
        """Let the worker finish the configuration at hand and forget the rest; kill it where it does not."""
        deadline = time.monotonic() + min(self._limits.run, CANCEL_SECONDS)
        try:
            self._worker.send({"do": "cancel"})
            while "done" not in self._worker.receive(max(0.0, deadline - time.monotonic())):
                pass
        except (WorkerDied, WorkerLate, SeqtuneError, KeyboardInterrupt):
            self._worker.kill()
