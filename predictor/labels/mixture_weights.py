"""Hybrid: trees beside the transformer.

Where labels are few, a chain learns from all devices, told apart by their facts, and kernels of a kind share one; where
they are many, each device has its own; between, both. How much the trees of a kernel count is what labels set aside
find best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from seqtune.data.labels import Labels

from ..sequence.vocabulary import Vocabulary
from .baselines.lookup import by_device
from .classifier_chain import ANY, ChainOptions, KernelChain, chains_of, mean_logs
from .inputs import tree_columns
from .label_lessons import Sentences
from .translator import SentenceModel

MANY = 8000  # labels: so many need no other device's
SMALL = 1500  # labels: so few are better learned from together with those of kin
WIDE = 64  # values of one parameter
EVEN = 0.5  # share of the trees where no label is set aside to tell a better one
PRIOR = 100  # a kernel's weight is drawn towards that of all kernels as by so many labels
WEIGHTS = np.linspace(0, 1, 21)

Chains = dict[tuple[str, str], KernelChain]  # by device, or ANY, and kernel
Logs = list[NDArray[np.float32]]  # per parameter (label, value): log-probabilities after the true values before it


def grow(labels: Mapping[str, Labels], threads: int = 2, seed: int = 0) -> Chains:
    """For labels of several kernels, whose values are all known. The trees are fewer than those of the baseline: a
    checkpoint keeps them."""
    labels = {name: some for name, some in labels.items() if len(some)}
    kin: dict[object, list[str]] = {}
    for name, some in labels.items():
        kin.setdefault(some.kernel.parameters if len(some) < SMALL else name, []).append(name)
    found: Chains = {}
    usual = ChainOptions(rounds=100, rate=0.1, depth=5, columns=0.5, threads=threads, seed=seed)
    for names in kin.values():
        some = labels[names[0]]
        if len(names) > 1:
            chains = KernelChain.fit_kin([labels[name] for name in names], replace(usual, depth=6))
            found |= {(ANY, name): chain for name, chain in zip(names, chains, strict=True)}
        elif max(len(np.unique(column)) for column in some.places.T) > WIDE:  # better told by few shallow trees
            found[ANY, names[0]] = KernelChain.fit(some, replace(usual, rounds=50, rate=0.15, depth=4))
        elif len(some) > MANY:
            own = replace(usual, rate=0.12, depth=6, columns=0.6)
            found |= {group: KernelChain.fit(part, own) for group, part in by_device({names[0]: some}).items()}
        else:
            found[ANY, names[0]] = KernelChain.fit(some, usual)
            own = replace(usual, rounds=70, rate=0.15, depth=6, columns=0.6)
            found |= {group: KernelChain.fit(part, own) for group, part in by_device({names[0]: some}).items()}
    return found


def best_weights(model: SentenceModel, vocabulary: Vocabulary, chains: Chains,
                 aside: Mapping[str, Labels]) -> tuple[float, dict[str, float]]:
    """The share of the trees for kernels in general, and for each: where the labels set aside, of which neither has
    learned, are most probable."""
    nats, counts = {}, {}
    for name, labels in aside.items():
        if len(labels):
            ours, trees = model_logs(model, vocabulary, labels), chain_logs(chains, labels)
            nats[name] = np.array([_nats(ours, trees, labels, weight) for weight in WEIGHTS])
            counts[name] = len(labels)
    if not nats:
        return EVEN, {}
    every = np.mean(list(nats.values()), axis=0)
    return float(WEIGHTS[every.argmin()]), {
        name: float(WEIGHTS[(own * counts[name] + every * PRIOR).argmin()]) for name, own in nats.items()}


def model_logs(model: SentenceModel, vocabulary: Vocabulary, labels: Labels) -> Logs:
    """What a model of sentences says."""
    lesson = Sentences.of(labels, vocabulary)
    with torch.inference_mode():
        parts = [[torch.log_softmax(scores.float(), dim=1).numpy() for scores in lesson.scores(model.eval(), rows)]
                 for rows in np.array_split(np.arange(len(lesson)), len(lesson) // 512 + 1)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def chain_logs(chains: Chains, labels: Labels) -> Logs:
    """What trees say; nothing, so that all values are alike, on devices without any."""
    columns = tree_columns(labels.questions)
    found = [np.zeros((len(labels), len(parameter.values)), np.float32) for parameter in labels.kernel.parameters]
    for number, device in enumerate(labels.questions.devices):
        mine = chains_of(chains, device.name, labels.kernel.name)
        rows = np.flatnonzero(labels.questions.device == number)
        if mine and len(rows):
            for column, logs in enumerate(found):
                logs[rows] = mean_logs(mine, columns[rows], labels.places[rows, :column])
    return found


def _nats(ours: Logs, trees: Logs, labels: Labels, weight: float) -> float:
    """Per parameter."""
    found, rows = 0.0, np.arange(len(labels))
    for column, (one, other) in enumerate(zip(ours, trees, strict=True)):
        blend = (1 - weight) * one + weight * other
        blend -= np.log(np.exp(blend).sum(axis=1, keepdims=True))
        found -= float(blend[rows, labels.places[:, column]].mean()) / len(ours)
    return found
