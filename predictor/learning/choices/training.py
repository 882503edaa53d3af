"""Training of a network on the labels of all kernels and devices, and on the timings of their solvers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqtune.data.labels import Labels, SolverTimings
from seqtune.data.queries import Queries
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import BACKEND

from ...sequence.source_facts import own_facts
from ...sequence.vocabulary import Vocabulary
from ...training.progress import OnProgress
from ...training.state import OUTSIDE, TrainingState, describe
from ...training.trainer import Course, fit
from ...translator.translator import Translator
from .examples import ChoiceExamples, ExampleSet, Rows, SolverTimingExamples
from .options import ChoiceOptions


@dataclass(frozen=True, eq=False)
class ChoiceTrainingResult:
    """A trained model, its vocabulary and a report of its training."""

    model: Translator
    vocabulary: Vocabulary
    report: dict[str, Any]


Batch = tuple[ExampleSet, Rows]  # the examples with these row numbers
OPERATION = "convnd"  # of every choice


def fixed_words() -> dict[str, int]:
    """The dimensions of a translator whose target words are fixed and whose facts share positions."""
    return {"quantities": 0, "facts": len(own_facts(OPERATION))}


def vocabulary_of(labels: Mapping[str, Labels], timings: SolverTimings | None) -> Vocabulary:
    """The vocabulary of all kernels and devices. Solvers with timings but no labels are kernels without parameters."""
    kernels = [kernel_labels.kernel for kernel_labels in labels.values()]
    devices = [device for kernel_labels in labels.values() for device in kernel_labels.queries.devices]
    if timings is not None:
        kernels += [Kernel(name, OPERATION, (BACKEND,), (), (), ()) for name in timings.names if name not in labels]
        devices += timings.queries.devices
    built = Vocabulary.build(kernels, dict.fromkeys(devices), listed="facts")
    return Vocabulary(built.names, built.words, built.targets, built.kernels)  # without derived quantities


def train_network(labels: Mapping[str, Labels], timings: SolverTimings | None = None,
                  options: ChoiceOptions | None = None, on_progress: OnProgress | None = None,
                  start: ChoiceTrainingResult | None = None,
                  say: Callable[[str], None] = lambda step: None) -> ChoiceTrainingResult:
    """Train a translator on labels by kernel and on timings of solvers.

    `start` continues from the weights of another training and keeps its vocabulary. Ctrl-C ends the training and keeps
    the best weights so far, or raises KeyboardInterrupt where the options name a folder of states. Raises MisuseError
    without labels, and FormatError where the folder of states holds another training.
    """
    options = options or ChoiceOptions()
    if not labels:
        raise MisuseError("there are no labels to learn from: find-dbs hold only times of solvers; import perf-dbs")
    vocabulary = vocabulary_of(labels, timings) if start is None else start.vocabulary
    torch.manual_seed(options.seed)
    if start is None:
        model = Translator.of(vocabulary, **fixed_words(), width=options.width, layers=options.layers,
                              heads=options.heads, hidden=options.hidden, dropout=options.dropout, word_dropout=0.02)
    else:
        model = Translator.of_arrays(start.model.size, start.model.arrays())
    parts = {name: split_validation(kernel_labels, options.validation) for name, kernel_labels in labels.items()}
    examples = {name: ChoiceExamples.of(fitting, vocabulary) for name, (fitting, _) in parts.items() if len(fitting)}
    validation = {name: ChoiceExamples.of(held_back, vocabulary)  # fewer than 20 give only noise
                  for name, (_, held_back) in parts.items() if len(held_back) >= 20}
    timing_examples = None if timings is None else SolverTimingExamples.of(timings, vocabulary)
    state = fit_examples(model, examples, validation, timing_examples, options,
                         fingerprint(model, labels, timings, options), on_progress, say)
    if state.interrupted and options.state is not None:
        raise KeyboardInterrupt
    report = {"labels": sum(map(len, labels.values())), "races": 0 if timings is None else len(timings),
              "kernels": len(labels), "parameters": sum(tensor.numel() for tensor in model.parameters()),
              "epochs": state.epoch, "history": state.history}
    return ChoiceTrainingResult(state.kept.eval(), vocabulary, report)


def fit_examples(model: Translator, examples: Mapping[str, ExampleSet], validation: Mapping[str, ExampleSet],
                 timing_examples: ExampleSet | None, options: ChoiceOptions, fingerprint: str = "",
                 on_progress: OnProgress | None = None,
                 say: Callable[[str], None] = lambda step: None) -> TrainingState[Translator]:
    """Train a translator on examples by kernel, and score it on the validation examples after every epoch.

    Without validation examples the averaged weights of the last epoch are kept.
    """
    def loss(model: Translator, batch: Batch) -> Tensor:
        example_set, rows = batch
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            return example_set.loss(model, rows, options)

    batches = partial(_batches, examples, timing_examples, options)
    course = Course(loss, batches, len(batches(np.random.default_rng())),  # equally many in each epoch
                    (lambda average: _validate(average, validation)) if validation else None, second_decay=0.99,
                    fused=True)
    return fit(model, course, options, fingerprint, on_progress, say)


def _batches(examples: Mapping[str, ExampleSet], timing_examples: ExampleSet | None, options: ChoiceOptions,
             generator: np.random.Generator) -> list[Batch]:
    """The batches of an epoch. Kernels with few labels get more than their share."""
    batches: list[Batch] = []
    counts = labels_per_epoch([len(example_set) for example_set in examples.values()], options.even, options.most)
    for example_set, count in zip(examples.values(), counts, strict=True):
        rounds = math.ceil(count / len(example_set))
        order = np.concatenate([generator.permutation(len(example_set)) for _ in range(rounds)])[:count]
        size = min(options.batch, max(options.least_batch, count // options.steps))
        batches += [(example_set, rows) for rows in np.array_split(order, math.ceil(count / size))]
    if timing_examples is not None:
        for _ in range(math.ceil(options.races * len(batches))):
            batches.append((timing_examples, generator.integers(
                0, len(timing_examples), min(options.race_batch, len(timing_examples)))))
    return [batches[number] for number in generator.permutation(len(batches))]


def labels_per_epoch(sizes: Sequence[int], even: float, most: float) -> list[int]:
    """The number of labels of each kernel in an epoch.

    The total is about the number of labels. Kernels with few labels get more than their share, since every kernel has
    the same weight in the evaluation.

    >>> labels_per_epoch([10_000, 100], 0.5, 3.0)
    [7106, 300]
    """
    mean = sum(sizes) / len(sizes)
    return [round(min(most * size, size**even * mean ** (1 - even))) for size in sizes]


@torch.inference_mode()
def _validate(model: Translator, validation: Mapping[str, ExampleSet]) -> dict[str, float]:
    """The loss in nats per value (`validation`) and the share of right values, as means over kernels."""
    model.eval()
    means = []
    for example_set in validation.values():
        parts = np.array_split(np.arange(len(example_set)), math.ceil(len(example_set) / 512))
        nats, right, count = np.sum([example_set.validation_sums(model, rows) for rows in parts], axis=0).tolist()
        means.append((nats / count, right / count))
    nats, right = np.mean(means, axis=0).tolist()
    return {"validation": nats, "right": right}


def split_validation(labels: Labels, share: int) -> tuple[Labels, Labels]:
    """Split labels by the hash of their problem: training labels, and those of one problem in `share` for validation.

    A share of 0 puts all labels into training.
    """
    hashes = labels.queries.hashes // np.uint64(1000)
    validation = hashes % np.uint64(share) == 0 if share else np.zeros(len(hashes), np.bool_)
    return labels.take(np.flatnonzero(~validation)), labels.take(np.flatnonzero(validation))


def fingerprint(model: nn.Module, labels: Mapping[str, Labels], timings: SolverTimings | None,
                options: ChoiceOptions) -> str:
    """Identify a training that begins with this model: a hash of its weights, the options and the training data."""
    digest = hashlib.sha256(repr({name: value for name, value in describe(options).items()
                                  if name not in OUTSIDE}).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    for kernel_labels in labels.values():
        kernel = kernel_labels.kernel
        digest.update(repr((kernel.name, kernel.parameters)).encode() + kernel_labels.value_indices.tobytes())
        digest.update(_query_bytes(kernel_labels.queries))
    if timings is not None:
        digest.update(repr(timings.names).encode() + timings.solver.tobytes() + timings.starts.tobytes()
                      + timings.seconds.tobytes() + _query_bytes(timings.queries))
    return digest.hexdigest()


def _query_bytes(queries: Queries) -> bytes:
    return repr(queries.devices).encode() + queries.device.tobytes() + queries.hashes.tobytes()
