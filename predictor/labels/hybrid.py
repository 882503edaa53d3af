"""Hybrid: trees beside the transformer.

One chain per kernel learns from all devices, told apart by their facts, and how much it counts is what labels set aside
find best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from seqtune.data.labels import Labels
from seqtune.predictor.labels.chain import ANY, ChainOptions, KernelChain
from seqtune.predictor.labels.inputs import tree_columns
from seqtune.predictor.labels.training import Sentences
from seqtune.predictor.labels.translator import SentenceModel
from seqtune.predictor.vocabulary import Vocabulary

MANY = 8000  # labels that bear deeper trees
SMALL = 1500  # labels: so few are better learned from together with those of kin
WIDE = 64  # values of one parameter
PRIOR = 100  # a kernel's weight is drawn towards that of all kernels as by so many labels
WEIGHTS = np.linspace(0, 1, 21)

Logs = list[NDArray[np.float32]]  # per parameter (label, value): log-probabilities after the true values before it


def joint_chain(labels: Labels, threads: int = 2, seed: int = 0) -> KernelChain:
    """Smaller than the chain that is a baseline: a checkpoint keeps it. Few shallow trees tell many values better."""
    options = ChainOptions(rounds=100, rate=0.1, depth=5, columns=0.5, threads=threads, seed=seed)
    if max(len(np.unique(column)) for column in labels.places.T) > WIDE:
        options = replace(options, rounds=50, rate=0.15, depth=4)
    elif len(labels) > MANY:
        options = replace(options, depth=6, least_weight=1.5)
    return KernelChain.fit(labels, options)


def joint_chains(labels: Mapping[str, Labels], threads: int = 2, seed: int = 0) -> dict[tuple[str, str], KernelChain]:
    """By device (any) and kernel. Kernels with few labels and the same parameters share their trees."""
    kin: dict[object, list[str]] = {}
    for name, some in labels.items():
        kin.setdefault(some.kernel.parameters if len(some) < SMALL else name, []).append(name)
    found: dict[tuple[str, str], KernelChain] = {}
    for names in kin.values():
        if len(names) == 1:
            chains = [joint_chain(labels[names[0]], threads, seed)]
        else:
            chains = KernelChain.fit_kin([labels[name] for name in names], ChainOptions(
                rounds=100, rate=0.1, depth=6, columns=0.5, threads=threads, seed=seed))
        found |= {(ANY, name): chain for name, chain in zip(names, chains, strict=True)}
    return found


def best_weights(model: SentenceModel, vocabulary: Vocabulary, chains: Mapping[tuple[str, str], KernelChain],
                 aside: Mapping[str, Labels]) -> tuple[float, dict[str, float]]:
    """The share of the trees for kernels in general, and for each: where the labels set aside, of which neither has
    learned, are most probable."""
    nats, counts = {}, {}
    for name, labels in aside.items():
        if len(labels):
            ours, trees = model_logs(model, vocabulary, labels), chain_logs(chains[ANY, name], labels)
            nats[name] = np.array([_nats(ours, trees, labels, weight) for weight in WEIGHTS])
            counts[name] = len(labels)
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


def chain_logs(chain: KernelChain, labels: Labels) -> Logs:
    """What trees say."""
    columns = tree_columns(labels.questions)
    return [chain.logs(columns, labels.places[:, :column]) for column in range(labels.places.shape[1])]


def _nats(ours: Logs, trees: Logs, labels: Labels, weight: float) -> float:
    """Per parameter."""
    found, rows = 0.0, np.arange(len(labels))
    for column, (one, other) in enumerate(zip(ours, trees, strict=True)):
        blend = (1 - weight) * one + weight * other
        blend -= np.log(np.exp(blend).sum(axis=1, keepdims=True))
        found -= float(blend[rows, labels.places[:, column]].mean()) / len(ours)
    return found
