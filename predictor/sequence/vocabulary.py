"""Vocabulary: the words of the translator's source and target sentences, and which kernels they speak of.

Source: one position per fact of the problem and the device. A position has a name (`conv2d.out_w`, `device.threads`),
a word where the fact is one (`dtype=fp32`, else <pad>), and the numeric code of a number.
Target: `kernel:llvm.direct`, then `parameter=value` for each of the kernel's parameters in order. Kernels share the
words of parameters with the same name. There is no end word: the kernel decides how long the sentence is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError, ConfigurationError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operations
from seqtune.kernels.problem import Problem

from .declaration import Declaration, differences
from .numeric_codes import CODE_SIZE, Codes, codes

PAD, UNKNOWN, BEGIN = 0, 1, 1  # <pad> everywhere; <unknown> in the source; <begin> in the target
MOST_WORDS = 100_000  # bounds what a foreign checkpoint can ask of us

Words = NDArray[np.int64]

_DEVICE_QUANTITIES = ("threads", "compute_units", "vector_floats", "vector_registers", "max_work_group")
_DEVICE_WORDS = ("backend", "instruction_set", "architecture")
_DEVICE_NUMBERS = ("threads", "compute_units", "vector_floats", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes",
                   "local_memory", "max_work_group", "peak_gflops", "bandwidth_gbs")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A source sentence: parallel arrays, one entry per position."""

    names: Words  # (position,)
    words: Words  # (position,) <pad> at a number
    codes: Codes  # (position, CODE_SIZE) zeros at a word
    quantities: NDArray[np.float32]  # (quantity,) 0 where the problem has none, or it is unknown


@dataclass(frozen=True, slots=True)
class Batch:
    """Source sentences of one length; `mask` is False at padding."""

    names: Words  # (sentence, position)
    words: Words  # (sentence, position)
    codes: Codes  # (sentence, position, CODE_SIZE)
    mask: NDArray[np.bool_]  # (sentence, position)
    quantities: NDArray[np.float32]  # (sentence, quantity)

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Batch:
        """Padded to the longest."""
        count, longest = len(sentences), max(len(sentence.names) for sentence in sentences)
        batch = cls(np.zeros((count, longest), np.int64), np.zeros((count, longest), np.int64),
                    np.zeros((count, longest, CODE_SIZE), np.float32), np.zeros((count, longest), np.bool_),
                    np.stack([sentence.quantities for sentence in sentences]))
        for row, sentence in enumerate(sentences):
            length = len(sentence.names)
            batch.names[row, :length] = sentence.names
            batch.words[row, :length] = sentence.words
            batch.codes[row, :length] = sentence.codes
            batch.mask[row, :length] = True
        return batch


@dataclass(frozen=True)
class Vocabulary:
    """All words, numbered by their place. `build` makes one, `extended` adds to one without renumbering."""

    names: tuple[str, ...]  # of source positions; <pad> <unknown> ...
    words: tuple[str, ...]  # of the source; <pad> <unknown> ...
    targets: tuple[str, ...]  # <pad> <begin> kernel:... parameter=value ...
    kernels: tuple[Declaration, ...]
    derived: tuple[str, ...] = ()  # names of the kernels' derived quantities; kernels share those of the same name
    _name: dict[str, int] = field(init=False, compare=False, repr=False)
    _word: dict[str, int] = field(init=False, compare=False, repr=False)
    _target: dict[str, int] = field(init=False, compare=False, repr=False)
    _places: dict[str, tuple[Words, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for own, words in (("_name", self.names), ("_word", self.words), ("_target", self.targets)):
            object.__setattr__(self, own, {word: place for place, word in enumerate(words)})
        places: dict[str, tuple[Words, ...]] = {}
        for kernel in self.kernels:
            try:
                places[kernel.name] = tuple(
                    np.array([self._target[target_word(name, value)] for value in values], dtype=np.int64)
                    for name, values in kernel.parameters)
                self._target[kernel_word(kernel.name)]
            except KeyError as error:
                raise CheckpointError(
                    f"the vocabulary lacks {error!s:.100} of its own kernel {kernel.name!r:.60}") from None
        object.__setattr__(self, "_places", places)

    @classmethod
    def build(cls, kernels: Iterable[Kernel], devices: Iterable[Device],
              problems: Iterable[Problem] = ()) -> Vocabulary:
        """From the kernels to be spoken of and the devices (and recorded problems) seen in training."""
        empty = cls(("<pad>", "<unknown>"), ("<pad>", "<unknown>"), ("<pad>", "<begin>"), ())
        return empty.extended(kernels, devices, problems)

    def extended(self, kernels: Iterable[Kernel], devices: Iterable[Device],
                 problems: Iterable[Problem] = ()) -> Vocabulary:
        """With what is new appended, so that every old word keeps its number; a newer declaration replaces an older."""
        names, words, targets = dict.fromkeys(self.names), dict.fromkeys(self.words), dict.fromkeys(self.targets)
        derived = dict.fromkeys(self.derived)
        for work in operations():
            words.setdefault(f"type={work.name}")
            names.setdefault("type")
            for feature in work.features:
                names.setdefault(f"{work.name}.{feature.name}")
                for choice in feature.choices:
                    words.setdefault(f"{feature.name}={choice}")
            for name, _ in work.derived:
                names.setdefault(f"{work.name}.{name}")
        for facts in [_problem_facts(problem) for problem in problems] + [_device_facts(device) for device in devices]:
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
        """The source sentence. Whatever was never seen becomes <unknown>, with its number still shown."""
        facts = _problem_facts(problem) + _device_facts(device)
        known = {name: value for name, value in facts if isinstance(value, int | float)}
        return Sentence(
            np.array([self._name.get(name, UNKNOWN) for name, _ in facts], dtype=np.int64),
            np.array([self._word.get(_source_word(name, value), UNKNOWN) if isinstance(value, str) else PAD
                      for name, value in facts], dtype=np.int64),
            codes([value for _, value in facts]),
            np.array([known.get(name, 0) for name in self.quantities], dtype=np.float32))

    def kernel(self, name: str) -> int:
        """The target word of a kernel family. Raises CheckpointError."""
        if name not in self._places:
            raise CheckpointError(f"the checkpoint does not know the kernel {name!r:.60}; it knows "
                                  f"{', '.join(self._places)} (train or retrain one with records of it)")
        return self._target[kernel_word(name)]

    def places(self, kernel: str) -> tuple[Words, ...]:
        """Per parameter of the kernel: the target word of each of its values, by `NextValue.value_index`."""
        self.kernel(kernel)
        return self._places[kernel]

    def target(self, configuration: Configuration) -> Words:
        """The target sentence: the kernel's word, then one word per parameter; without <begin>."""
        words = [self.kernel(configuration.kernel)]
        for name, value in configuration.settings:
            word = self._target.get(target_word(name, value))
            if word is None:
                raise ConfigurationError(f"no target word for {name}={value!r:.40} of {configuration.kernel}")
            words.append(word)
        return np.array(words, dtype=np.int64)

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """Source names that values of tuning parameters are held against: how often a tile of 14 fits a row of 56.

        Operations and the device come in the order in which their names joined the vocabulary, so that quantities keep
        their places when it is extended.
        """
        groups = [*dict.fromkeys(name.partition(".")[0] for name in self.names), "device"]
        known = {work.name: work.quantities for work in operations()} | {"device": _DEVICE_QUANTITIES}
        return tuple(f"{group}.{name}" for group in dict.fromkeys(groups) for name in known.get(group, ()))

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of the devices that were seen in training."""
        return tuple(word.removeprefix("backend=") for word in self.words if word.startswith("backend="))

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of the kernels: what stands before the dot in their names."""
        return tuple(dict.fromkeys(kernel.name.partition(".")[0] for kernel in self.kernels))

    @property
    def longest(self) -> int:
        """Words of the longest target sentence."""
        return 1 + max((len(kernel.parameters) for kernel in self.kernels), default=0)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What target words are grouped by: <pad>, <begin>, kernel, then the parameters' names."""
        found = dict.fromkeys(("<pad>", "<begin>", "kernel"))
        for word in self.targets[2:]:
            found.setdefault(_group(word))
        return tuple(found)

    def target_groups(self) -> Words:
        """(target word,) -> place in `parameter_names`."""
        place = {name: number for number, name in enumerate(self.parameter_names)}
        return np.array([PAD, BEGIN] + [place[_group(word)] for word in self.targets[2:]], dtype=np.int64)

    def target_values(self) -> list[Value]:
        """What each target word says: a number, or a text for kernels and text values."""
        values: list[Value] = ["", ""]
        for word in self.targets[2:]:
            values.append("" if word.startswith("kernel:") else json.loads(word.partition("=")[2]))
        return values

    def differences(self, kernels: Iterable[Kernel]) -> list[str]:
        """How the kernels here differ from those that the checkpoint was trained on; empty where it fits."""
        return differences(self.kernels, kernels)

    def check(self, kernels: Iterable[Kernel]) -> None:
        """Raises CheckpointError that says what differs."""
        found = self.differences(kernels)
        if found:
            more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
            raise CheckpointError(f"the checkpoint has another vocabulary: {found[0]}{more}; "
                                  "retrain it, or choose another checkpoint")


def kernel_word(name: str) -> str:
    """`kernel:llvm.direct`."""
    return f"kernel:{name}"


def target_word(parameter: str, value: Setting) -> str:
    """`tile_w=14`; text values are quoted, so that 8 and "8" differ."""
    return f"{parameter}={json.dumps(value)}"


def _group(word: str) -> str:
    return "kernel" if word.startswith("kernel:") else word.partition("=")[0]


def _source_word(name: str, value: str) -> str:
    return f"{name.partition('.')[2] or name}={value}"


def _problem_facts(problem: Problem) -> list[tuple[str, Value]]:
    return [("type", problem.type), *((f"{problem.type}.{name}", value) for name, value in problem.names().items())]


def _device_facts(device: Device) -> list[tuple[str, Value]]:
    facts: list[tuple[str, Value]] = [(f"device.{name}", getattr(device, name))
                                      for name in _DEVICE_WORDS + _DEVICE_NUMBERS]
    return facts + [(f"device.{name}", value) for name, value in device.extra]
