"""WorkerRequest: one request to a measuring worker with its replies, from preparing the operands to the last answer.

A request is under way until the worker reports that it is done, dies, exceeds a time limit and is killed, or rejects
the request. The state of the request records which of these happened, so a caller need not infer it from an exception.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from enum import Enum
from types import TracebackType

from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, SeqtuneError, SeqtuneWarning, UnpreparedError, UnpreparedMisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..deadline import Deadline
from ..timing import Options
from .message import Message
from .process import START_SECONDS, WorkerDied, WorkerLate, WorkerProcess

SLOWEST_GFLOPS = 1.0  # a kernel slower than this on a large problem is killed
FEWEST_LAUNCHES = 3  # the check, and one or two samples of such a slow kernel
CANCEL_SECONDS = 5.0  # longest time that a cancelled worker may continue, because the user waits


class RequestState(Enum):
    """The state of a request."""

    UNDER_WAY = "under way"
    DONE = "done"  # answered in full, refused by the worker, or given up by the parent
    LATE = "late"  # no answer within its limit; the worker was killed
    DEAD = "dead"  # the worker died
    OVER = "over"  # the budget or the planned time ended first; the worker was killed if it did not stop by itself


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a worker that has not answered is killed."""

    prepare: float  # operands and reference
    build: float
    run: float
    patience: float = math.inf  # upper limit of all

    @classmethod
    def of(cls, problem: Problem, options: Options, build_allowance: float = 0.0) -> Limits:
        """The limits for a problem. `build_allowance` is the backend's, in seconds."""
        flop = problem.names().get("flop")
        launch = flop / (SLOWEST_GFLOPS * 1e9) if isinstance(flop, int) else 0.0
        run = options.run_seconds + FEWEST_LAUNCHES * launch
        prepare = START_SECONDS + Options().run_seconds + FEWEST_LAUNCHES * launch
        build = max(options.build_seconds, build_allowance)
        return cls(min(prepare, options.patience), build, min(run, options.patience), options.patience)

    def run_with(self, allowance: float) -> float:
        """The seconds to run for an executable that may take as long as `allowance`."""
        return min(max(self.run, allowance), self.patience)


class WorkerRequest:
    """A request to a worker. Leaving its context cancels the configurations that are not measured yet.

    A lost worker raises no exception: `state` becomes LATE or DEAD, and `failure` returns the measurement to record.
    After the deadline it is OVER, and there is nothing to record.
    """

    def __init__(self, worker: WorkerProcess, problem: Problem, limits: Limits, message: Message,
                 deadline: Deadline, planned: float = math.inf) -> None:
        """Begin nothing yet. `planned` is the `Options.planned` of the request, in seconds since the deadline began."""
        self.state = RequestState.UNDER_WAY
        self.prepared = False  # whether the worker has made operands and reference
        self.fresh = True  # whether the worker has measured nothing before the current configuration
        self.entry = -1  # index of the comparison's entry on which the worker is working
        self._worker, self._problem, self._limits, self._message = worker, problem, limits, message
        self._deadline, self._planned = deadline, planned
        self._cause = ""
        self._preparing = ""  # the reference or the configuration that computes the expected outputs
        self._failed: list[str] | None = None  # why configurations before it failed; None: it is no configuration
        self._resources: ResourceUsage | None = None  # of the executable that the worker runs now

    def __enter__(self) -> WorkerRequest:
        try:
            self._worker.send(self._message)
        except WorkerDied:
            self._lose(RequestState.DEAD)
        try:
            while (reply := self._reply(self._limits.prepare, "preparing", "prepared")) and "preparing" in reply:
                self._preparing, self._failed = reply["preparing"], reply["failed"]
        except SeqtuneError as error:  # of the worker
            kind = UnpreparedMisuseError if isinstance(error, MisuseError) else UnpreparedError
            raise kind(str(error)) from None
        if reply is not None:
            self.prepared = True
            if reply["note"]:
                warnings.warn(reply["note"], SeqtuneWarning, stacklevel=4)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.state is RequestState.UNDER_WAY:
            self.state = RequestState.DONE
            if self._message["do"] == "measure":
                self._cancel()
            else:
                self._worker.kill()  # a comparison cannot be cancelled

    def measurement(self) -> Measurement | None:
        """The next configuration's measurement; None if the request is over."""
        self._resources = None
        message = self._reply(self._limits.build, "built", "measurement", "done")
        if message is not None and "done" in message:  # the worker stops at the planned end, and must not do so before
            if self._deadline.elapsed >= min(self._planned, self._deadline.seconds):
                self.state = RequestState.OVER
            else:
                self._worker.refuse("'done' instead of a measurement")
                self._lose(RequestState.DEAD)
            return None
        if message is not None and "built" in message:
            self._resources = _resources(message)
            message = self._reply(self._limits.run_with(message["allowance"]), "measurement")
        if message is None:
            return None
        measurement = Measurement.from_json(message["measurement"])
        self._worker.answered += 1
        if measurement.damaged:  # the next configurations need a new process
            self.state = RequestState.DONE
            self._worker.kill()
        return measurement

    def comparison(self) -> list[Measurement] | None:
        """All measurements of a comparison; None if the request ended early."""
        allowance, entries = 0.0, len(self._message["entries"])
        while (message := self._reply(max(self._limits.build, self._limits.run_with(allowance)), "at", "compared")):
            if len(message.get("compared", range(entries))) != entries or message.get("at", 0) >= entries:
                self._worker.refuse("it answers for other configurations")
                self._lose(RequestState.DEAD)
                return None
            if "compared" in message:
                measurements = [Measurement.from_json(measurement) for measurement in message["compared"]]
                self._worker.answered += len(measurements)
                self.finish()
                return measurements
            self.entry, self._resources, allowance = message["at"], _resources(message), message["allowance"]
        return None

    def finish(self) -> None:
        """Wait until the worker reports that it is done. If it dies after its last answer, nothing has failed."""
        self._reply(self._limits.build, "done")
        self.state = RequestState.DONE

    def failure(self) -> Measurement:
        """The measurement of the configuration on which the worker was lost: CRASH or TIMEOUT."""
        if self.state is RequestState.DEAD:
            return Measurement(Status.CRASH, message=self._cause, resources=self._resources)
        return Measurement(Status.TIMEOUT, resources=self._resources, message=(
            f"no answer within {self._limits.build:.0f} s of building or {self._limits.run:.0f} s of running"))

    def failed_outputs(self) -> list[str] | None:
        """Why each configuration failed that should compute the expected outputs, the last one with its worker.

        None if the worker was lost by something else.
        """
        if self.prepared or self._failed is None:
            return None
        return [*self._failed, f"it {self._outcome()}"]

    def unprepared(self) -> UnpreparedError:
        """The error to raise if operands or reference cannot be made: no configuration is to blame."""
        if self._preparing:
            return UnpreparedError(f"{self._problem.brief()}: there is nothing to compare with, because "
                                   f"{self._preparing} {self._outcome()}")
        return UnpreparedError(f"the operands of {self._problem.brief()} cannot be prepared "
                               f"({self._cause or f'not within {self._limits.prepare:.0f} s'}): is it too large for "
                               "this machine?")

    def _outcome(self) -> str:
        return (f"ended its process ({self._cause})" if self._cause else
                f"did not end within {self._limits.prepare:.0f} s")

    def _reply(self, seconds: float, *kinds: str) -> Message | None:
        if self.state is not RequestState.UNDER_WAY:
            return None
        try:
            return self._worker.receive(min(seconds, self._deadline.left + self._deadline.grace), *kinds)
        except WorkerLate:
            self._lose(RequestState.OVER if self._deadline.is_over else RequestState.LATE)
        except WorkerDied:
            self._lose(RequestState.DEAD)
        except SeqtuneError:  # the request is at fault; the worker has forgotten it
            self.state = RequestState.DONE
            raise
        return None

    def _lose(self, state: RequestState) -> None:
        self.state, self.fresh = state, self._worker.answered == 0
        if state is RequestState.DEAD:
            self._cause = self._worker.post_mortem()
        self._worker.kill()

    def _cancel(self) -> None:
        """Let the worker finish the current configuration and skip the rest; kill it if it takes too long."""
        deadline = time.monotonic() + min(self._limits.run, CANCEL_SECONDS, self._deadline.left + self._deadline.grace)
        try:
            self._worker.send({"do": "cancel"})
            while "done" not in self._worker.receive(max(0.0, deadline - time.monotonic())):
                if time.monotonic() > deadline:  # it goes on sending
                    raise WorkerLate
        except (WorkerDied, WorkerLate, SeqtuneError, KeyboardInterrupt):
            self._worker.kill()


def _resources(message: Message) -> ResourceUsage | None:
    return None if message["resources"] is None else ResourceUsage.from_json(message["resources"])
