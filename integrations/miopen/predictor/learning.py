"""LabelLearning: trains and evaluates models of MIOpen's labels, as users request it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.kernels.say import Say, silent
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.kinds import EvaluationRequest, TrainingRequest
from seqtune.predictor.sequence.beam import TASKS, WIDTH, Allowed, NextWord, search_numbers_many
from seqtune.predictor.training.options import TrainingOptions, label_options
from seqtune.predictor.training.progress import Progress
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.threads import one_thread

from ..kernels.solver import PREFIX
from .labels import TIMED, Labels, SolverTimings, read_labels, read_solver_timings

TOP = 5  # proposals that are scored
MOST_QUERIES = 2048  # whose solvers are chosen at once: their states take 100 MB
ValueIndices = NDArray[np.int16]  # (..., parameter): index of each value in its parameter's values, -1 for none
Propose = Callable[[Labels, int], ValueIndices]  # proposals for labels' queries: (label, proposal, parameter)
Choose = Callable[[SolverTimings], NDArray[np.int64]]  # the solver, one that was timed, of each query: (query,)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of an evaluation."""

    device: str

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LabelRow(Row):
    """The scores on the labels of one device and solver: shares of labels, or of their parameters."""

    solver: str
    n: int  # labels
    exact: float  # share of labels that are the first proposal
    exact_top5: float  # share of labels that are among the first five proposals
    per_parameter: float  # share of parameters that are right in the first proposal


@dataclass(frozen=True, slots=True)
class SolverRow(Row):
    """The scores of the solver choice on one device. Shares of the fastest solver's speed are geometric means."""

    n: int  # problems
    top1: float  # share of problems whose fastest solver was chosen
    share: float  # of the chosen solvers
    default_share: float  # of always choosing the solver that is fastest most often, among those that apply


def score_labels(proposals: Propose, labels: Mapping[str, Labels], progress: Say = silent) -> list[LabelRow]:
    """Score the proposals of a method: a row for each solver and device."""
    rows = []
    for name, own in labels.items():
        for device, part in own.by_device().items():
            progress(f"scoring {len(part)} labels of {name} on {device}")
            wanted = part.value_indices[:, None]
            same = (proposals(part, TOP) == wanted) & (wanted >= 0)
            whole = same.all(axis=2)
            rows.append(LabelRow(device, name.removeprefix(PREFIX), len(part), float(whole[:, 0].mean()),
                                 float(whole.any(axis=1).mean()), float(same[:, 0].mean())))
    return rows


def propose(words: NextWord[Any], labels: Labels, count: int, width: int = WIDTH) -> ValueIndices:
    """The proposals of a beam search for labels: at most `width` configurations each; a width of 1 is greedy."""
    proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
    pairs = labels.pairs()
    for begin in range(0, len(pairs), TASKS):
        tasks = [Task(*pair, (SearchSpace(labels.kernel, *pair),)) for pair in pairs[begin:begin + TASKS]]
        searched = search_numbers_many(words, tasks, width, min(count, width))
        for row, (task, (numbers, _)) in enumerate(zip(tasks, searched, strict=True), begin):
            proposed[row, :len(numbers)] = task.spaces[0].rows[numbers]
    return proposed


def score_solvers(timings: SolverTimings, choose: Choose) -> list[SolverRow]:
    """Score the choice of solvers: a row per device."""
    rows = []
    for device, own in timings.by_device().items():
        every, share = np.arange(len(own)), own.seconds.min(axis=1, keepdims=True) / own.seconds
        usual = np.where(share > 0, (share == 1).sum(axis=0), -1).argmax(axis=1)
        chosen, default = (share[every, solver].astype(np.float64) for solver in (choose(own), usual))
        rows.append(SolverRow(device, len(own), float((chosen == 1).mean()), float(np.exp(np.log(chosen).mean())),
                              float(np.exp(np.log(default).mean()))))
    return rows


def choose(translator: NumpyTranslator, timings: SolverTimings) -> NDArray[np.int64]:
    """The most probable of the timed solvers of each query, (query,). Solvers that the vocabulary lacks come last."""
    vocabulary, scores = translator.vocabulary, np.full(timings.seconds.shape, -1e9)
    known = np.flatnonzero(np.isin(timings.names, [kernel.name for kernel in vocabulary.kernels]))
    words = np.array([vocabulary.kernel(timings.names[number]) for number in known])
    for rows in np.array_split(np.arange(len(timings)), len(timings) // MOST_QUERIES + 1) if len(words) else ():
        after = np.repeat(np.arange(len(rows)), len(words))
        allowed = Allowed(after, np.tile(words, len(rows)), np.full((len(after), len(vocabulary.derived)), np.nan))
        scores[np.ix_(rows, known)] = translator.start(timings.take(rows).pairs(), allowed)[1].reshape(len(rows), -1)
    return np.asarray(np.where(np.isfinite(timings.seconds), scores, -np.inf).argmax(axis=1))


class LabelLearning:
    """The learning from MIOpen's labels. `options` are those of a training (None: the usual ones) without a recipe."""

    def __init__(self, options: TrainingOptions | None = None) -> None:
        self.options = options

    def learns_from(self, data: Dataset) -> bool:
        """Whether the data set holds labels and times of MIOpen's solvers."""
        return data.holds_labels

    def train(self, data: Dataset, request: TrainingRequest,
              progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Train a model and report on it; see `Learning.train`."""
        from .training import train

        options, recipe = self.options or label_options(), request.recipe
        options = recipe.options if recipe is not None else replace(
            options, seed=request.seed, refit=request.refit, epochs=request.epochs or options.epochs)
        model, report = train(data, replace(options, state=request.state, end_now=request.end_now), progress)
        named = {} if recipe is None else {"recipe": recipe.name}
        return replace(model, provenance={**model.provenance, **named}), report

    def retrain(self, model: Checkpoint, new: Dataset, old: Dataset, request: TrainingRequest, scratch: bool,
                progress: Progress) -> tuple[Checkpoint, dict[str, Any]]:
        """Raise MisuseError: a model of labels is always trained from scratch."""
        raise MisuseError("a model of MIOpen's labels cannot be retrained: train one on old and new labels in one data "
                          "set (seqtune train)")

    def evaluate(self, model: Checkpoint, data: Dataset, request: EvaluationRequest, progress: Say,
                 note: Say) -> Sequence[Row]:
        """The scores on labels and timings that the model has not learned from. Raises MisuseError without any."""
        if request.methods is not None or request.queries is not None:
            raise MisuseError("--methods, --live and --problems are for data sets of measurements")
        assert model.labels is not None
        kernels, has_learned = model.kernels, model.labels.has_learned
        labels, timings = read_labels(data), read_solver_timings(data)
        unseen = {name: part for name, own in labels.items() if name in kernels
                  and len(part := own.for_kernel(kernels[name]).take(~has_learned(own.hashes)))}
        model.vocabulary.check(kernels[name] for name in unseen)
        timings = timings.take(~has_learned(timings.hashes ^ TIMED))
        if not unseen and not len(timings):
            raise MisuseError("nothing to evaluate on: the checkpoint has learned from every problem in these files")
        skipped = sum(map(len, labels.values())) - sum(map(len, unseen.values()))
        if skipped:
            note(f"{skipped} labels are not evaluated: their problems were learned from, or their solvers are unknown")
        with one_thread():
            rows = score_labels(partial(propose, model.next_word()), unseen, progress)
            progress("scoring the choice of solvers")
            return [*rows, *score_solvers(timings, partial(choose, model.translator))]
