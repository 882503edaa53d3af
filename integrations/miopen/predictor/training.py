"""Training: a translator learns the labels of all kernels and devices, and the times of their solvers; then trees grow.

No search space is enumerated: labels are hardly ever outside of it, and prediction excludes what is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.say import silent
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.sequence.source_facts import own_facts
from seqtune.predictor.sequence.vocabulary import BEGIN, Vocabulary, Words
from seqtune.predictor.training.conditions import has_bf16_products
from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.training.progress import Progress
from seqtune.predictor.training.state import OUTSIDE, describe
from seqtune.predictor.training.trainer import Course, fit
from seqtune.predictor.translator.translator import Choices, Source, Translator

from ..formats.importing import tables_of
from ..kernels.solver import BACKEND
from .chains import grow
from .labels import TIMED, Labels, SolverTimings, read_labels, read_solver_timings
from .learned import LearnedLabels, filter_of
from .source_columns import SourceColumns

OPERATION = "convnd"  # of every label
FIXED_WORDS = {"quantities": 0, "facts": len(own_facts(OPERATION))}  # target words are fixed, facts share positions
SMOOTHING = 0.01  # share of the wanted probability that is spread over a parameter's values: labels are noisy
OTHERS = 0.2  # weight of what says that the wanted solver is among the timed ones
TIMINGS, TIMINGS_BATCH = 0.12, 256  # steps on solver timings for each step on labels, and queries of such a step

Rows = NDArray[np.int64]
Batch = tuple["Examples", Rows]  # the examples with these row numbers
Named = Mapping[str, Labels]  # by kernel


@dataclass(frozen=True, eq=False)
class Examples:
    """Labels of one kernel, or timings of solvers, as a translator reads them; timings have one prefix, <begin>."""

    sources: SourceColumns
    inputs: Words  # (row, T) the words that are read: <begin>, the kernel's, the values' but the last
    words: Words  # (word,) that are scored, those after one prefix together
    lengths: list[int]  # the number of words after each prefix; the prefixes are the longest of the input
    wanted: NDArray[np.float32]  # (row, word) probabilities of the words of each prefix

    @classmethod
    def of_labels(cls, labels: Labels, vocabulary: Vocabulary) -> Examples:
        """Convert labels, at least one, whose values are all known."""
        following = vocabulary.value_words(labels.kernel.name)
        chosen = list(zip(following, labels.value_indices.T, strict=True))
        first = np.tile([BEGIN, vocabulary.kernel(labels.kernel.name)], (len(labels), 1))
        wanted = [(1 - SMOOTHING) * np.eye(len(words))[indices] + SMOOTHING / len(words) for words, indices in chosen]
        return cls(SourceColumns.of(labels.pairs(), vocabulary),
                   np.column_stack([first, *(words[indices] for words, indices in chosen[:-1])]),
                   np.concatenate(following), list(map(len, following)), np.column_stack(wanted).astype(np.float32))

    @classmethod
    def of_timings(cls, timings: SolverTimings, vocabulary: Vocabulary, tau: float) -> Examples:
        """Convert timings, at least one; a solver that is slower by `tau` is e times less wanted."""
        words = np.array([vocabulary.kernel(name) for name in timings.names])
        slowness = timings.seconds / timings.seconds.min(axis=1, keepdims=True) - 1
        wanted = np.exp(-np.minimum(slowness / tau, 50)) * np.isfinite(slowness)  # 0 only if it was not timed
        return cls(SourceColumns.of(timings.pairs(), vocabulary), np.full((len(timings), 1), BEGIN), words,
                   [len(words)], wanted / wanted.sum(axis=1, keepdims=True))

    def loss(self, model: Translator, rows: Rows) -> Tensor:
        """The mean cross-entropy of a prefix in nats; what separates words of probability 0 counts OTHERS."""
        ends, derived = self.inputs.shape[1], model.size.derived
        after = np.repeat(np.arange(ends - len(self.lengths), ends), self.lengths)
        position, inputs = (np.arange(len(rows))[:, None] * ends + after).ravel(), torch.from_numpy(self.inputs[rows])
        choices = Choices(torch.from_numpy(position), torch.from_numpy(np.tile(self.words, len(rows))),
                          torch.full((len(position), derived), torch.nan))
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bf16_products()):
            scores: Tensor = model(Source.of(self.sources.batch(rows)), inputs,
                                   torch.full((*inputs.shape, derived), torch.nan), choices)
        wanted, nats = torch.from_numpy(self.wanted[rows]), []
        both = (torch.split(part, self.lengths, dim=1) for part in (scores.float().view(wanted.shape), wanted))
        for logs, shares in ((F.log_softmax(own, dim=1), shares) for own, shares in zip(*both, strict=True)):
            possible = torch.logsumexp(logs.masked_fill(shares == 0, -torch.inf), dim=1)
            nats.append((1 - OTHERS) * possible - (shares * logs).sum(1))
        return torch.stack(nats).mean()


def batches_of(labels: Sequence[Examples], timings: Sequence[Examples], batch: int,
               generator: np.random.Generator) -> list[Batch]:
    """The examples of the steps of an epoch, which has about as many labels as there are, in order.

    A kernel with few labels gets more than its share, since it has the same weight as others in the evaluation.
    """
    steps: list[Batch] = []
    mean = sum(len(examples.inputs) for examples in labels) / len(labels)
    for examples in labels:
        size = len(examples.inputs)
        count = round(min(2 * size, size**0.9 * mean**0.1))
        order = np.resize(generator.permutation(size), count)
        steps += [(examples, rows) for rows in np.array_split(order, math.ceil(count / batch))]
    for timed in timings:
        rows = generator.integers(0, len(timed.inputs), (math.ceil(TIMINGS * len(steps)), TIMINGS_BATCH))
        steps += [(timed, own) for own in rows]
    return [steps[number] for number in generator.permutation(len(steps))]


def train(data: Dataset, options: TrainingOptions, progress: Progress = silent) -> tuple[Checkpoint, dict[str, Any]]:
    """Train on the labels and timings of a data set: of all problems (`refit`), or of those that are not held out.

    Ctrl-C keeps the weights so far, or raises KeyboardInterrupt if there is a folder of states. Raises MisuseError.
    """
    progress("reading the labels")
    labels, timings = read_labels(data), read_solver_timings(data)
    if not options.refit:
        timings = timings.take(~timings.held_out)
        labels = {name: part for name, own in labels.items() if len(part := own.take(~own.held_out))}
    if not labels:
        raise MisuseError("there are no labels to learn from: find-dbs hold only times of solvers; import perf-dbs")
    model, vocabulary, report = train_network(labels, timings, options, progress)
    progress("growing trees")
    seen = filter_of(np.concatenate([*(own.hashes for own in labels.values()), timings.hashes ^ TIMED]))
    learned = LearnedLabels(seen, tables_of(data), grow([*labels.values()], options.threads, options.seed))
    provenance: dict[str, Any] = {"source": data.provenance.get("source", ""), "options": describe(options)}
    metrics = {name: value for name, value in report.items() if name != "history"}
    checkpoint = Checkpoint.of_translator(model, vocabulary, provenance, metrics, options.seed)
    return replace(checkpoint, labels=learned), report


def train_network(labels: Named, timings: SolverTimings, options: TrainingOptions,
                  progress: Progress = silent) -> tuple[Translator, Vocabulary, dict[str, Any]]:
    """Train a translator on labels by kernel and timings of solvers; return it, its vocabulary and a report."""
    torch.manual_seed(options.seed)
    vocabulary = vocabulary_of(labels, timings)
    model = Translator.of(vocabulary, **FIXED_WORDS, width=options.width, layers=options.layers,
                          decoder_layers=options.decoder_layers, heads=options.heads, hidden=options.hidden,
                          dropout=options.dropout, word_dropout=0.02)
    examples = [Examples.of_labels(own, vocabulary) for own in labels.values()]
    timed = [Examples.of_timings(timings, vocabulary, options.tau)] if len(timings) else []
    batches = partial(batches_of, examples, timed, options.batch)
    steps = len(batches(np.random.default_rng()))  # an epoch has as many as another
    course: Course[Translator, Batch] = Course(lambda model, batch: batch[0].loss(model, batch[1]), batches, steps,
                                               second_decay=0.99, fused=True)
    progress(f"training: {options.epochs} epochs of {steps:,} steps")
    digest = hashlib.sha256(repr((vocabulary, {name: value for name, value in describe(options).items()
                                               if name not in OUTSIDE})).encode())
    for own in (*examples, *timed):
        for array in (own.sources.numbers, own.sources.words, own.inputs, own.wanted):
            digest.update(array.tobytes())
    state = fit(model, course, options, digest.hexdigest(), progress)
    if state.interrupted and options.state is not None:
        raise KeyboardInterrupt
    return state.kept.eval(), vocabulary, {
        "labels": sum(map(len, labels.values())), "timings": len(timings), "kernels": len(labels),
        "epochs": state.epoch, "history": state.history}


def vocabulary_of(labels: Named, timings: SolverTimings) -> Vocabulary:
    """The vocabulary of all kernels and devices. Solvers with timings but no labels are kernels without parameters."""
    kernels = [own.kernel for own in labels.values()]
    kernels += [Kernel(name, OPERATION, (BACKEND,), (), (), ()) for name in timings.names if name not in labels]
    devices = np.concatenate([*(own.devices for own in labels.values()), timings.devices])
    built = Vocabulary.build(kernels, dict.fromkeys(devices.tolist()), listed="facts")
    return Vocabulary(built.names, built.words, built.targets, built.kernels)  # without derived quantities
