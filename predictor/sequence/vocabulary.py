"""Vocabulary: the words of source and target sentences, and the kernels that target sentences can name.

A source sentence lists facts of the problem and the device (see `source_facts`). A fact has a name (`conv2d.out_w`,
`machine.weights_in_l2`), a word if it is one (`dtype=fp32`, else <pad>), and the numeric code of a number. It has a
position of its own, or shares one with other facts where the operation says so.
A target sentence is `kernel:llvm.direct`, then `parameter=value` for each of the kernel's parameters in order. Kernels
share the words of parameters with the same name. There is no end word: the kernel determines the sentence's length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError, ConfigurationError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operations
from seqtune.kernels.problem import Problem

from .declaration import Declaration, differences
from .numeric_codes import CODE_SIZE, Codes, codes
from .source_facts import (
    RATIO_NAMES,
    SourceList,
    listed_facts,
    own_facts,
    own_positions,
    problem_facts,
    ratio_facts,
    source_facts,
)

PAD, UNKNOWN, BEGIN = 0, 1, 1  # <pad> everywhere; <unknown> in the source; <begin> in the target
MAX_WORDS = 100_000  # limits the memory that a checkpoint of unknown origin can request

Words = NDArray[np.int64]

_DEVICE_QUANTITIES = ("threads", "compute_units", "vector_floats", "vector_registers", "max_work_group")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A source sentence: arrays with one entry for each fact, and the quantities."""

    names: Words  # (fact,)
    words: Words  # (fact,) <pad> for a number
    codes: Codes  # (fact, CODE_SIZE) zeros for a word
    quantities: NDArray[np.float32]  # (quantity,) 0 if the problem lacks it or it is unknown
    positions: Words | None = None  # (fact,) ascending from 0; None: each fact has a position of its own

    @property
    def length(self) -> int:
        """The number of positions."""
        return len(self.names) if self.positions is None else 1 + int(self.positions[-1])


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Several source sentences, padded to the same length; `mask` is False at padding."""

    names: Words  # (sentence, fact)
    words: Words  # (sentence, fact)
    codes: Codes  # (sentence, fact, CODE_SIZE)
    mask: NDArray[np.bool_]  # (sentence, position)
    quantities: NDArray[np.float32]  # (sentence, quantity)
    positions: Words | None = None  # (sentence, fact) as many as there are positions: padding; None: as in Sentence

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> SourceBatch:
        """Pad the sentences to the length of the longest."""
        count, longest = len(sentences), max(len(sentence.names) for sentence in sentences)
        positions = max(sentence.length for sentence in sentences)
        shared = any(sentence.positions is not None for sentence in sentences)
        batch = cls(np.zeros((count, longest), np.int64), np.zeros((count, longest), np.int64),
                    np.zeros((count, longest, CODE_SIZE), np.float32), np.zeros((count, positions), np.bool_),
                    np.stack([sentence.quantities for sentence in sentences]),
                    np.full((count, longest), positions) if shared else None)
        for row, sentence in enumerate(sentences):
            length = len(sentence.names)
            batch.names[row, :length] = sentence.names
            batch.words[row, :length] = sentence.words
            batch.codes[row, :length] = sentence.codes
            batch.mask[row, :sentence.length] = True
            if batch.positions is not None:
                batch.positions[row, :length] = np.arange(length) if sentence.positions is None else sentence.positions
        return batch


@dataclass(frozen=True)
class Vocabulary:
    """All words; a word's number is its index. `build` makes a vocabulary, `extended` adds words at the end."""

    names: tuple[str, ...]  # names of source positions: <pad> <unknown> ...
    words: tuple[str, ...]  # source words: <pad> <unknown> ...
    targets: tuple[str, ...]  # target words: <pad> <begin> kernel:... parameter=value ...
    kernels: tuple[Declaration, ...]
    derived: tuple[str, ...] = ()  # names of derived quantities; kernels share those of the same name
    _name: dict[str, int] = field(init=False, compare=False, repr=False)
    _word: dict[str, int] = field(init=False, compare=False, repr=False)
    _target: dict[str, int] = field(init=False, compare=False, repr=False)
    _value_words: dict[str, tuple[Words, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for attribute, words in (("_name", self.names), ("_word", self.words), ("_target", self.targets)):
            object.__setattr__(self, attribute, {word: index for index, word in enumerate(words)})
        value_words: dict[str, tuple[Words, ...]] = {}
        for kernel in self.kernels:
            try:
                value_words[kernel.name] = tuple(
                    np.array([self._target[target_word(name, value)] for value in values], dtype=np.int64)
                    for name, values in kernel.parameters)
                self._target[kernel_word(kernel.name)]
            except KeyError as error:
                raise CheckpointError(
                    f"the vocabulary lacks {error!s:.100} of its own kernel {kernel.name!r:.60}") from None
        object.__setattr__(self, "_value_words", value_words)

    @classmethod
    def build(cls, kernels: Iterable[Kernel], devices: Iterable[Device], problems: Iterable[Problem] = (),
              listed: SourceList = "ratios") -> Vocabulary:
        """Make the vocabulary for some kernels and the devices (and recorded problems) of the training data.

        `listed` says how source sentences describe a device.
        """
        names = ("<pad>", "<unknown>", *(RATIO_NAMES if listed == "ratios" else ()))
        empty = cls(names, ("<pad>", "<unknown>"), ("<pad>", "<begin>"), ())
        return empty.extended(kernels, devices, problems)

    def extended(self, kernels: Iterable[Kernel], devices: Iterable[Device],
                 problems: Iterable[Problem] = ()) -> Vocabulary:
        """A vocabulary with new words appended; old words keep their numbers, and new declarations replace old ones."""
        names, words, targets = dict.fromkeys(self.names), dict.fromkeys(self.words), dict.fromkeys(self.targets)
        derived = dict.fromkeys(self.derived)
        for operation in operations():
            words.setdefault(f"type={operation.name}")
            names.setdefault("type")
            for feature in operation.features:
                names.setdefault(f"{operation.name}.{feature.name}")
                for choice in feature.choices:
                    words.setdefault(f"{feature.name}={choice}")
            for name in (*(name for name, _ in operation.derived), *own_facts(operation.name)):
                names.setdefault(f"{operation.name}.{name}")
        for facts in [*map(problem_facts, problems), *(listed_facts(device, self.listed) for device in devices)]:
            for name, value in facts:
                names.setdefault(name)
                if isinstance(value, str):
                    words.setdefault(_source_word(name, value))
        declared = {kernel.name: kernel for kernel in self.kernels}
        for kernel in kernels:
            declared[kernel.name] = Declaration.of(kernel)
            targets.setdefault(kernel_word(kernel.name))
            derived.update(dict.fromkeys(name for name, _ in kernel.derived))
            for parameter in kernel.parameters:
                for value in parameter.values:
                    targets.setdefault(target_word(parameter.name, value))
        return Vocabulary(tuple(names), tuple(words), tuple(targets), tuple(declared.values()), tuple(derived))

    def source(self, problem: Problem, device: Device) -> Sentence:
        """The source sentence of a problem on a device. Unknown names and words become <unknown>."""
        return replace(self.sentence(self.facts(problem, device)), positions=own_positions(problem.type))

    def facts(self, problem: Problem, device: Device) -> list[tuple[str, Value]]:
        """The names and values of the facts of a problem on a device, in the order of the source sentence."""
        return source_facts(problem, device, self.listed, self.ratios)

    def word(self, name: str, value: str) -> int:
        """The number of the source word of a fact; <unknown> if the vocabulary lacks it."""
        return self._word.get(_source_word(name, value), UNKNOWN)

    def name(self, name: str) -> int:
        """The number of the name of a fact; <unknown> if the vocabulary lacks it."""
        return self._name.get(name, UNKNOWN)

    def sentence(self, facts: Sequence[tuple[str, Value]]) -> Sentence:
        """The source sentence of some facts."""
        return Sentence(
            np.array([self.name(name) for name, _ in facts], dtype=np.int64),
            np.array([self.word(name, value) if isinstance(value, str) else PAD for name, value in facts],
                     dtype=np.int64),
            codes([value for _, value in facts]), self.fact_quantities(facts))

    def fact_quantities(self, facts: Iterable[tuple[str, Value]]) -> NDArray[np.float32]:
        """The quantities (quantity,) among some facts; 0 where one is missing or unknown."""
        numbers = {name: value for name, value in facts if isinstance(value, int | float)}
        return np.array([numbers.get(name, 0) for name in self.quantities], dtype=np.float32)

    def with_ratios(self, sentence: Sentence, problem: Problem, device: Device) -> Sentence:
        """The sentence with the ratios of another device, of which only measured rates differ.

        A sentence without ratios is returned as it is.
        """
        if not self.ratios or sentence.positions is not None:
            return sentence
        changed = sentence.codes.copy()
        changed[-len(self.ratios):] = codes([value for _, value in ratio_facts(problem, device, self.ratios)])
        return replace(sentence, codes=changed)

    def kernel(self, name: str) -> int:
        """The target word of a kernel family. Raises CheckpointError if the vocabulary lacks it."""
        if name not in self._value_words:
            raise CheckpointError(f"the checkpoint does not know the kernel {name!r:.60}; it knows "
                                  f"{', '.join(self._value_words)}; train on problems that it solves, "
                                  "or hold out others")
        return self._target[kernel_word(name)]

    def value_words(self, kernel: str) -> tuple[Words, ...]:
        """The target words of the values of each parameter of a kernel, in the order of `Parameter.values`."""
        self.kernel(kernel)
        return self._value_words[kernel]

    def target(self, configuration: Configuration) -> Words:
        """The target sentence of a configuration without <begin>.

        Raises CheckpointError and ConfigurationError for words that the vocabulary lacks.
        """
        words = [self.kernel(configuration.kernel)]
        for name, value in configuration.settings:
            word = self._target.get(target_word(name, value))
            if word is None:
                raise ConfigurationError(f"no target word for {name}={value!r:.40} of {configuration.kernel}")
            words.append(word)
        return np.array(words, dtype=np.int64)

    @cached_property
    def listed(self) -> SourceList:
        """How source sentences describe a device: by ratios, if the vocabulary has names of any."""
        return "ratios" if self.ratios else "facts"

    @cached_property
    def ratios(self) -> tuple[str, ...]:
        """The names of the ratios in source sentences; later versions may know more than a checkpoint's."""
        return tuple(name for name in RATIO_NAMES if name in self._name)

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """The source names whose numbers are compared with values of parameters, such as a row of 56 with a tile of 14.

        Operations and the device come in the order in which their names joined the vocabulary, so that quantities keep
        their indices when it is extended.
        """
        groups = [*dict.fromkeys(name.partition(".")[0] for name in self.names), "device"]
        by_group = {operation.name: operation.quantities for operation in operations()} | {"device": _DEVICE_QUANTITIES}
        return tuple(f"{group}.{name}" for group in dict.fromkeys(groups) for name in by_group.get(group, ()))

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of the devices in the training data."""
        return tuple(word.removeprefix("backend=") for word in self.words if word.startswith("backend="))

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of the kernels: the part of their names before the dot."""
        return tuple(dict.fromkeys(kernel.name.partition(".")[0] for kernel in self.kernels))

    @property
    def longest(self) -> int:
        """The number of words of the longest target sentence."""
        return 1 + max((len(kernel.parameters) for kernel in self.kernels), default=0)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The groups of target words: <pad>, <begin>, kernel, then the names of the parameters."""
        groups = dict.fromkeys(("<pad>", "<begin>", "kernel"))
        for word in self.targets[2:]:
            groups.setdefault(_group(word))
        return tuple(groups)

    def target_groups(self) -> Words:
        """The index in `parameter_names` of each target word's group, (target word,)."""
        index_of = {name: index for index, name in enumerate(self.parameter_names)}
        return np.array([PAD, BEGIN] + [index_of[_group(word)] for word in self.targets[2:]], dtype=np.int64)

    def target_values(self) -> list[Value]:
        """The value of each target word: a number or a text; empty for kernels, <pad> and <begin>."""
        values: list[Value] = ["", ""]
        for word in self.targets[2:]:
            values.append("" if word.startswith("kernel:") else json.loads(word.partition("=")[2]))
        return values

    def differences(self, kernels: Iterable[Kernel]) -> list[str]:
        """The differences between installed kernels and those of the training, as text; empty if there are none."""
        return differences(self.kernels, kernels)

    def check(self, kernels: Iterable[Kernel]) -> None:
        """Raise CheckpointError with the first difference between installed kernels and those of the training."""
        wanted = tuple(kernels)
        texts = self.differences(kernel for kernel in wanted if kernel not in self._agreeing)
        if texts:
            if not {kernel.name.partition(".")[0] for kernel in wanted} & set(self.libraries):
                texts[0] += f" (it knows kernels of {', '.join(self.libraries)})"
            more = f" (and {len(texts) - 1} more differences)" if len(texts) > 1 else ""
            raise CheckpointError(f"the checkpoint has another vocabulary: {texts[0]}{more}; "
                                  "retrain it, or choose another checkpoint")
        self._agreeing.update(wanted)

    @cached_property
    def _agreeing(self) -> set[Kernel]:
        """The installed kernels that were compared and do not differ: every prediction asks."""
        return set()


def kernel_word(name: str) -> str:
    """The target word of a kernel, such as `kernel:llvm.direct`."""
    return f"kernel:{name}"


def target_word(parameter: str, value: Setting) -> str:
    """The target word of a value, such as `tile_w=14`; text values are quoted, so that 8 and "8" differ."""
    return f"{parameter}={json.dumps(value)}"


def _group(word: str) -> str:
    return "kernel" if word.startswith("kernel:") else word.partition("=")[0]


def _source_word(name: str, value: str) -> str:
    return f"{name.partition('.')[2] or name}={value}"
