"""Bulk predictions: the most promising configurations of many problems, in batches and in several processes."""

from __future__ import annotations

import csv
import io
import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.libraries.messages import messages_in_use, use_messages
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent
from seqtune.predictor.answering import answering_many, predictor_for, predictor_name, propose_many
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.correction.device_evidence import device_evidence
from seqtune.tuner.backends import discovery
from seqtune.tuner.backends.measured_rates import warn_of_doubt
from seqtune.tuner.measuring.deadline import SECONDS
from seqtune.tuner.processes import one_thread_each, usable_jobs
from seqtune.tuner.remembered import Remembered, remembered_winners

from ..errors import KernelError, MisuseError, SeqtuneError, UnpreparedError, shown
from .inputs import as_device, as_problems, check_positive
from .predicting import check_verifiable, predict, remembered_answer
from .results import Answer, Prediction, finite

BATCH = 32  # problems that a process answers at once; one beam search answers them, with the same numbers
FEW = 256  # problems for which a further process is worth its start of half a second
FORMATS = ("csv", "jsonl")
COLUMNS = ("line", "problem", "device", "rank", "kernel", "configuration", "probability", "share", "low", "high",
           "status", "seconds", "winner_kernel", "winner_configuration", "winner_seconds", "speedup", "reason",
           "predictor")
NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BulkAnswer:
    """The answer to one problem of many; it has no candidates if no kernel solves the problem."""

    problem: Problem
    device: str  # its name
    candidates: tuple[Answer, ...]  # most probable first
    reason: str = ""  # why there are no candidates
    verification: Prediction | None = None  # the answer with what was measured, where that was asked for
    predictor: str = ""  # name or folder of the checkpoint, or name of the untrained predictor, that answered
    note: str = ""  # what to know about an answer that rests on no measurement
    remembered: Remembered | None = None  # the comparison in the journal that the first candidate won

    @property
    def winner(self) -> Answer | None:
        """The configuration to use: the winner of the verification, or the first candidate."""
        if self.verification is not None:
            return self.verification.winner
        return self.candidates[0] if self.candidates else None

    @property
    def shortfall(self) -> str:
        """Why there are no candidates, or why these were not verified though that was asked for."""
        return self.reason if self.verification is None else self.verification.unverified

    def to_json(self) -> dict[str, object]:
        """A JSON object, with `reason` where there are no candidates; of a verification, all fields of one answer."""
        if self.verification is not None:
            return self.verification.to_json()
        fields: dict[str, object] = {
            "problem": self.problem.to_json(), "device": self.device,
            "candidates": [candidate.to_json() for candidate in self.candidates]}
        if self.winner is None:
            return {**fields, "reason": self.reason}
        fields |= {"winner": self.winner.to_json(), "predictor": self.predictor}
        if self.winner.confidence is not None:
            fields["confidence"] = self.winner.confidence.to_json()
        if self.remembered is not None:
            fields["remembered"] = self.remembered.to_json()
        return {**fields, "note": self.note} if self.note else fields

    def json_line(self, number: int, labels: Mapping[str, str] = NO_LABELS) -> str:
        """The answer as a line of JSON, with the number and the labels of the input's line."""
        told = {"labels": dict(labels)} if labels else {}
        return json.dumps({"line": number, **told, **self.to_json()}, allow_nan=False) + "\n"

    def rows(self, number: int, labels: Mapping[str, str] = NO_LABELS) -> str:
        """The answer as rows of CSV under `csv_header`, one for each candidate, with the input's line and the winner.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        about = (number, *labels.values(), self.problem.key, self.device)
        winner = self.winner
        if winner is None:
            writer.writerow((*about, *[""] * (len(COLUMNS) - 5), self.shortfall, self.predictor))
            return text.getvalue()
        verdict = self.verification if self.remembered is None else self.remembered.verdict
        speedup = None if verdict is None else verdict.speedup
        for rank, candidate in enumerate(self.candidates, 1):
            confidence = candidate.confidence
            expected = (None,) * 3 if confidence is None else (confidence.share, confidence.low, confidence.high)
            writer.writerow((*about, rank, *_words(candidate), candidate.probability, *expected, *_times(candidate),
                             *_words(winner), _times(winner)[1], speedup, self.shortfall, self.predictor))
        return text.getvalue()


def csv_header(labels: Iterable[str] = ()) -> str:
    """The first row of CSV: COLUMNS, behind the first the labels, by other names where COLUMNS has theirs."""
    text = io.StringIO()
    named = [f"label_{name}" if name in COLUMNS else name for name in labels]
    csv.writer(text, lineterminator="\n").writerow((COLUMNS[0], *named, *COLUMNS[1:]))
    return text.getvalue()


def _words(proposal: Answer) -> tuple[str, str]:
    """The kernel and the configuration of a proposal, for CSV."""
    return proposal.configuration.kernel, proposal.configuration.key


def _times(proposal: Answer) -> tuple[str | None, float | None]:
    """The status and the seconds of a proposal, for CSV; None where it was not measured or did not run."""
    measurement = proposal.measurement
    return (None, None) if measurement is None else (measurement.status.value, finite(measurement.seconds))


def predict_many(problems: object, device: Device | str = "llvm:0", top: int = 1, *, jobs: int = 1,
                 checkpoint: str | Path | None = None, journal: str | Path | None = None, evidence: bool = True,
                 verify: bool = False, seconds: float | None = None, cache: bool = True,
                 progress: Say = silent) -> Iterator[BulkAnswer]:
    """Predict the `top` most promising configurations of many problems, in their order, each as soon as it is known.

    `problems` are several problems, or the name of a set; an answer to one that no kernel solves has a reason and no
    candidates. With `evidence`, the measurements of the device in the journal correct the proposals, as they do for one
    problem. `jobs` is the maximum number of processes; few problems take fewer. A program that asks for more than one
    needs the usual guard `if __name__ == "__main__"`. With `verify`, the candidates of each problem are measured, one
    problem after the other in this process; each gets an equal part of `seconds` (None: SECONDS for each), so that the
    journal (`cache`) answers when the same is asked again. Raises MisuseError for wrong arguments.
    """
    wanted = as_problems(problems)
    for name, count in (("top", top), ("jobs", jobs)):
        if not isinstance(count, int) or count < 1:
            raise MisuseError(f"{name}={shown(count)}; at least one is needed")
    if seconds is not None:
        check_positive("seconds", seconds)
    if verify and jobs > 1:
        raise MisuseError(f"jobs={jobs}; problems are verified by one process, since others would disturb its times")
    device = as_device(device)
    if verify:
        check_verifiable(top)
        discovery.check_present(device)
        each = SECONDS if seconds is None else seconds / max(1, len(set(wanted)))
        return _answers(wanted, partial(_verified, device=device, top=top, seconds=each, checkpoint=checkpoint,
                                        journal=journal, evidence=evidence, cache=cache, progress=progress), 1,
                        progress, batch=1)
    names: Iterable[str | Path] = [checkpoint] if checkpoint is not None else dict.fromkeys(
        predictor_name(problem, device) for problem in dict.fromkeys(wanted))
    for predictor in [predictor_for(device, name) for name in names]:
        if evidence and isinstance(predictor, Checkpoint):
            device_evidence(predictor.on(device), device, journal)  # like the lines before, raises before an answer
    warn_of_doubt()  # here, because the processes that answer have measured nothing
    run = partial(_answer, device=device, name=checkpoint, top=top, journal=journal, evidence=evidence)
    return _answers(wanted, run, jobs, progress)


def _verified(problems: Sequence[Problem], device: Device, **options: Any) -> list[BulkAnswer]:
    """The answers to problems with what was measured; a problem of which nothing runs has the reason instead."""
    answers = []
    for problem in problems:
        try:
            prediction = predict(problem, device, verify=True, **options)
        except SeqtuneError as error:
            if isinstance(error, MisuseError) and not isinstance(error, KernelError | UnpreparedError):
                raise
            answers.append(BulkAnswer(problem, device.name, (), str(error)))
            continue
        answers.append(BulkAnswer(problem, device.name, prediction.candidates, verification=prediction,
                                  predictor=prediction.predictor, note=prediction.note))
    return answers


def _answers(problems: Sequence[Problem], answer: partial[list[BulkAnswer]], jobs: int, progress: Say,
             batch: int = BATCH) -> Iterator[BulkAnswer]:
    """Answer problems; equal problems are answered once and repeated. Raises CheckpointError and SeqtuneError."""
    distinct = list(dict.fromkeys(problems))
    batches = [distinct[begin:begin + batch] for begin in range(0, len(distinct), batch)]
    answers: dict[Problem, BulkAnswer] = {}
    waiting = iter(problems)
    problem = next(waiting, None)
    began = time.monotonic()
    with _mapping(min(jobs, 1 + len(distinct) // FEW), answer) as run:
        for answered_batch in run(batches):
            answers.update((answered.problem, answered) for answered in answered_batch)
            rate = len(answers) / max(time.monotonic() - began, 1e-9)
            progress(f"predicted {len(answers)} of {len(distinct)} problems, {rate:.0f} per second")
            while problem is not None and problem in answers:
                yield answers[problem]
                problem = next(waiting, None)


@contextmanager
def _mapping(jobs: int, run: partial[list[BulkAnswer]]) -> Iterator[partial[Iterator[list[BulkAnswer]]]]:
    """Yield a function that maps `run` over batches in order, in this process or in a pool of processes."""
    if usable_jobs(jobs) <= 1:
        yield partial(map, run)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Ctrl-C reaches every process: only this one answers it
    with one_thread_each(), ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start_process,
                                                (messages_in_use(),)) as pool:
        try:
            yield partial(pool.map, run)
        except BrokenProcessPool:
            raise SeqtuneError("a process that predicts died, perhaps because memory ran out; use fewer jobs") from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _start_process(libraries: list[dict[str, Any]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_messages(libraries)


def _answer(problems: Sequence[Problem], device: Device, name: str | Path | None, top: int, journal: str | Path | None,
            evidence: bool) -> list[BulkAnswer]:
    """The answers to one batch."""
    answered, unsolved = answering_many(problems, device, name)
    proposed = propose_many(list(answered.values()), top, journal, evidence)
    winners = remembered_winners(answered, device, journal) if evidence else {}
    answers = {problem: BulkAnswer(problem, device.name, (), str(error)) for problem, error in unsolved.items()}
    answers |= {problem: BulkAnswer(problem, device.name, _proposals(candidates, winners.get(problem), top),
                                    predictor=str(asked.name), note=asked.note, remembered=winners.get(problem))
                for (problem, asked), candidates in zip(answered.items(), proposed, strict=True)}
    return [answers[problem] for problem in problems]


def _proposals(candidates: Sequence[Candidate], winner: Remembered | None, top: int) -> tuple[Answer, ...]:
    """The candidates of one problem, with the journal's winner, if there is one, as the first."""
    if winner is None:
        return tuple(Answer.of(candidate.configuration, candidate) for candidate in candidates)
    by_configuration = {candidate.configuration: candidate for candidate in candidates}
    first = remembered_answer(winner, by_configuration.pop(winner.configuration, None))
    return (first, *(Answer.of(*each) for each in by_configuration.items()))[:top]
