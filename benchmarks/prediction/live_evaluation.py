"""Live evaluation in parts: problems are searched and judged on this machine, and each outcome is kept at once."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.evaluation import COUNTS
from benchmarks.common.progress import say
from seqtune.errors import FormatError, KernelError, SeqtuneError
from seqtune.kernels.problem_sets.kinds import kind_of
from seqtune.predictor.times.shares import OURS, Outcome

if TYPE_CHECKING:
    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.model import Predictor
    from seqtune.tuner.measuring.runner import Runner

RANDOM = 24  # configurations that estimate random choices; the search has found the best time before


class JudgedFile:
    """The outcomes of judged problems, one JSON object in each line, written at once.

    `about` is all that outcomes depend on; those of another machine, checkpoint or version are not read. Raises
    FormatError if the file is damaged.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = path, dict(about)
        self.outcomes: dict[str, Outcome] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
            try:
                content = json.loads(line)
                if content["about"] == self.about:
                    outcome = Outcome.from_json(content)
                    self.outcomes[outcome.problem] = outcome
            except (ValueError, LookupError, TypeError, FormatError):
                raise FormatError(f"{path}:{number} is not what this program writes; remove the line") from None

    def add(self, outcome: Outcome) -> None:
        """Store an outcome."""
        with self.path.open("a") as file:
            file.write(json.dumps({**outcome.to_json(), "about": self.about}) + "\n")
        self.outcomes[outcome.problem] = outcome


def searched(problem: Problem, device: Device, journal: Journal, runner: Runner, trials: int) -> MeasuredTask | None:
    """Search a problem, or take its trials from the journal; None if no kernel solves it."""
    from seqtune.kernels.task import MeasuredTask, Task
    from seqtune.tuner.run.local_run import tune
    from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

    try:
        task = Task.of(problem, device)
    except KernelError:
        return None
    strategy = "random" if len(task) <= trials else "local"
    tune(task, journal, runner, Budget(trials=trials), TuningOptions(strategy, finals=Finals(count=0)))
    return MeasuredTask.of_times(task, {
        configuration: measurement.seconds
        for configuration, measurement in journal.trials(problem, device, task.kernels).items()})


def judge_live(proposers: Mapping[str, Predictor], methods: Sequence[str], device: Device, problems: Sequence[Problem],
               judged: JudgedFile, journal: Journal, trials: int, until: float) -> int:
    """Search each problem that is not judged yet, and hold a contest of the proposals of all methods.

    It ends at the time `until` of the monotonic clock, in seconds. Returns the number of problems that remain.
    """
    from seqtune.predictor.times.evaluation import EvaluateOptions, LiveContest, live_outcome

    todo = [problem for problem in problems if problem.key not in judged.outcomes]
    with LiveContest(device, lambda step: None) as contest:
        for number, problem in enumerate(todo):
            if time.monotonic() >= until:
                return len(todo) - number
            try:
                known = searched(problem, device, journal, contest.runner, trials)
                if known is None:
                    continue
                judged.add(live_outcome(problem, device, proposers, methods, COUNTS, contest,
                                        EvaluateOptions(sample=RANDOM), known))
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise
                say(f"{problem.brief()} is left out: {error}")
                continue
            share = math.exp(judged.outcomes[problem.key].log_shares[OURS, 0])
            say(f"{device.name} {number + 1}/{len(todo)} {kind_of(problem)}: {problem.brief()} {share:.3f}")
    return 0
