"""Mixture weights: chains of boosted trees, and how much they count against the transformer.

A kernel with few labels has one chain for all devices, which sees their facts, and kernels with equal parameters share
it. A kernel with many labels has a chain for each device. In between, it has both. The weight of a kernel's trees is
the one that makes the validation labels most probable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from seqtune.data.labels import Labels

from ...choices.choice_trees import Chains
from ...choices.classifier_chain import ANY, ChainOptions, KernelChain, chains_of, mean_logs
from ...choices.inputs import tree_columns
from ...sequence.vocabulary import Vocabulary
from ...translator.translator import Translator
from .examples import ChoiceExamples

MANY = 8000  # labels: with more, a device needs no labels of other devices
SMALL = 1500  # labels: with fewer, kernels with equal parameters share a chain
WIDE = 64  # values of one parameter: with more, few shallow trees predict better
EVEN = 0.5  # weight of the trees where there is no validation label
PRIOR = 100  # labels that the weight of all kernels counts for in the weight of one kernel
WEIGHTS = np.linspace(0, 1, 21)  # the weights that are tried

Logs = list[NDArray[np.float32]]  # for each parameter: log-probabilities (label, value) after the true values before it


def by_device(labels: Mapping[str, Labels]) -> dict[tuple[str, str], Labels]:
    """Split the labels of each kernel by device: labels by the names of device and kernel."""
    return {(device.name, name): part.take(np.flatnonzero(part.queries.device == number))
            for name, part in labels.items() for number, device in enumerate(part.queries.devices)
            if (part.queries.device == number).any()}


def grow(labels: Mapping[str, Labels], threads: int = 2, seed: int = 0) -> Chains:
    """Fit chains to the labels of several kernels, whose values must all be known.

    They have fewer trees than the baseline, since a checkpoint stores them.
    """
    labels = {name: kernel_labels for name, kernel_labels in labels.items() if len(kernel_labels)}
    groups: dict[object, list[str]] = {}
    for name, kernel_labels in labels.items():
        groups.setdefault(kernel_labels.kernel.parameters if len(kernel_labels) < SMALL else name, []).append(name)
    result: Chains = {}
    shared_options = ChainOptions(rounds=100, rate=0.1, depth=5, columns=0.5, threads=threads, seed=seed)
    for names in groups.values():
        kernel_labels = labels[names[0]]
        if len(names) > 1:
            chains = KernelChain.fit_shared([labels[name] for name in names], replace(shared_options, depth=6))
            result |= {(ANY, name): chain for name, chain in zip(names, chains, strict=True)}
        elif max(len(np.unique(column)) for column in kernel_labels.value_indices.T) > WIDE:
            shallow = replace(shared_options, rounds=50, rate=0.15, depth=4)
            result[ANY, names[0]] = KernelChain.fit(kernel_labels, shallow)
        elif len(kernel_labels) > MANY:
            device_options = replace(shared_options, rate=0.12, depth=6, columns=0.6)
            result |= {group: KernelChain.fit(part, device_options)
                       for group, part in by_device({names[0]: kernel_labels}).items()}
        else:
            result[ANY, names[0]] = KernelChain.fit(kernel_labels, shared_options)
            device_options = replace(shared_options, rounds=70, rate=0.15, depth=6, columns=0.6)
            result |= {group: KernelChain.fit(part, device_options)
                       for group, part in by_device({names[0]: kernel_labels}).items()}
    return result


def best_weights(model: Translator, vocabulary: Vocabulary, chains: Chains,
                 validation: Mapping[str, Labels]) -> tuple[float, dict[str, float]]:
    """The weight of the trees, from 0 to 1, for kernels in general and for each kernel by name.

    It makes the validation labels, from which neither model nor trees have learned, most probable.
    """
    nats, counts = {}, {}
    for name, labels in validation.items():
        if len(labels):
            translator, trees = model_logs(model, vocabulary, labels), chain_logs(chains, labels)
            nats[name] = np.array([_nats(translator, trees, labels, weight) for weight in WEIGHTS])
            counts[name] = len(labels)
    if not nats:
        return EVEN, {}
    mean = np.mean(list(nats.values()), axis=0)
    return float(WEIGHTS[mean.argmin()]), {
        name: float(WEIGHTS[(kernel_nats * counts[name] + mean * PRIOR).argmin()])
        for name, kernel_nats in nats.items()}


def model_logs(model: Translator, vocabulary: Vocabulary, labels: Labels) -> Logs:
    """The log-probabilities that a model of sentences gives to the values of labels."""
    examples = ChoiceExamples.of(labels, vocabulary)
    with torch.inference_mode():
        parts = [[torch.log_softmax(scores.float(), dim=1).numpy() for scores in examples.scores(model.eval(), rows)]
                 for rows in np.array_split(np.arange(len(examples)), len(examples) // 512 + 1)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def chain_logs(chains: Chains, labels: Labels) -> Logs:
    """The log-probabilities that trees give to the values of labels; zeros on devices without trees."""
    columns = tree_columns(labels.queries)
    result = [np.zeros((len(labels), len(parameter.values)), np.float32) for parameter in labels.kernel.parameters]
    for number, device in enumerate(labels.queries.devices):
        device_chains = chains_of(chains, device.name, labels.kernel.name)
        rows = np.flatnonzero(labels.queries.device == number)
        if device_chains and len(rows):
            for column, logs in enumerate(result):
                logs[rows] = mean_logs(device_chains, columns[rows], labels.value_indices[rows, :column])
    return result


def _nats(translator: Logs, trees: Logs, labels: Labels, weight: float) -> float:
    """The mean loss in nats per parameter of the mixture with this weight of the trees."""
    nats, rows = 0.0, np.arange(len(labels))
    for column, (translator_logs, tree_logs) in enumerate(zip(translator, trees, strict=True)):
        blend = (1 - weight) * translator_logs + weight * tree_logs
        blend -= np.log(np.exp(blend).sum(axis=1, keepdims=True))
        nats -= float(blend[rows, labels.value_indices[:, column]].mean()) / len(translator)
    return nats
