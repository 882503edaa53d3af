"""ChoiceTrees: chains of boosted trees that choose the values of parameters, and how much they count.

A checkpoint stores them as plain arrays in a compressed safetensors file. Its content is not trusted: the structure of
trees is checked, and a wrong one raises CheckpointError.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Kernel

from ..sequence.beam import NextWord
from ..sequence.mixture import Average
from ..sequence.vocabulary import Vocabulary
from ..trees.forest import UNREADABLE, Forest, of_numpy, read_forest
from .about import ChainAbout, ChoiceTreesAbout
from .classifier_chain import ChainWords, KernelChain, ParameterClassifier, as_arrays
from .inputs import TREE_FEATURES

FILE = "trees.zlib"
MOST_BYTES = 300_000_000  # unpacked
Chains = dict[tuple[str, str], KernelChain]  # by the names of device (or ANY) and kernel


@dataclass(frozen=True, eq=False)
class ChoiceTrees:
    """The chains, and their weight against the translator in every word's log-probability, from 0 to 1."""

    chains: Chains
    weight: float = 0.5
    weights: Mapping[str, float] = field(default_factory=dict)  # the same by kernel, where it differs

    @classmethod
    def read(cls, folder: Path, about: ChoiceTreesAbout, kernels: Mapping[str, Kernel],
             vocabulary: Vocabulary) -> ChoiceTrees:
        """Read the trees of a checkpoint's folder, which configure these kernels by name. Raises CheckpointError."""
        if not set(about.weights) <= {declared.name for declared in vocabulary.kernels}:
            raise CheckpointError(f"{folder}: `weights` names kernels that the vocabulary lacks")
        return cls(_chains(folder / FILE, about.chains, kernels), about.weight, about.weights)

    def write(self, folder: Path) -> None:
        """Write the trees into a checkpoint's folder."""
        trees = {f"{index}/{column}/{part}": array for index, classifiers in enumerate(self._shared().values())
                 for column, classifier in enumerate(as_arrays(classifiers)) if isinstance(classifier.trees, Forest)
                 for part, array in classifier.trees.arrays().items()}
        (folder / FILE).write_bytes(zlib.compress(save(trees), 6))

    def about(self) -> ChoiceTreesAbout:
        """The fields of seqtune.json that describe the trees."""
        number = {key: index for index, key in enumerate(self._shared())}
        return ChoiceTreesAbout(weight=self.weight, weights=dict(self.weights), chains=tuple(
            ChainAbout(device=device, kernel=kernel, trees=number[id(chain.classifiers)], member=chain.member,
                       seen=tuple(tuple(classifier.seen.tolist()) for classifier in chain.classifiers))
            for (device, kernel), chain in self.chains.items()))

    def words(self, vocabulary: Vocabulary) -> ChainWords:
        """The trees alone as a source of next words."""
        return ChainWords(self.chains, vocabulary)

    def mixed(self, translator: NextWord[Any]) -> NextWord[Any]:
        """The translator's next words, mixed with those of the trees."""
        return Average([(translator, 1 - self.weight), (self.words(translator.vocabulary), self.weight)],
                       {name: (1 - weight, weight) for name, weight in self.weights.items()})

    def _shared(self) -> dict[int, tuple[ParameterClassifier, ...]]:
        """The distinct classifiers of all chains, which kernels of a group share, by their identity."""
        return {id(chain.classifiers): chain.classifiers for chain in self.chains.values()}


def unpacked(path: Path, most: int = MOST_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of a compressed safetensors file of at most `most` bytes, unpacked. Raises CheckpointError."""
    try:
        if path.stat().st_size > most:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's")
        packed = zlib.decompressobj()
        content = packed.decompress(path.read_bytes(), most)
        if packed.unconsumed_tail:
            raise CheckpointError(f"{path} unpacks to more than {most} bytes, more than any checkpoint's trees")
        return of_numpy(load(content))
    except (SafetensorError, OSError, ValueError, *UNREADABLE, zlib.error) as error:
        raise CheckpointError(f"{path} is no compressed safetensors file ({error!s:.100})") from None


def _chains(path: Path, about: Sequence[ChainAbout], kernels: Mapping[str, Kernel]) -> Chains:
    arrays = unpacked(path)
    chains: Chains = {}
    loaded: dict[Any, tuple[ParameterClassifier, ...]] = {}
    for chain in about:
        name, kernel = chain.kernel, kernels.get(chain.kernel)
        if kernel is None or len(chain.seen) != len(kernel.parameters):
            raise CheckpointError(f"{path}: the trees of {name:.60} do not fit the parameters of that kernel")
        sizes = tuple(len(parameter.values) for parameter in kernel.parameters)
        key = (chain.trees, chain.member is None, chain.seen, sizes)
        if key not in loaded:
            loaded[key] = tuple(_classifier(path, arrays, chain, column, len(parameter.values))
                                for column, parameter in enumerate(kernel.parameters))
        chains[chain.device, name] = KernelChain(kernel, loaded[key], chain.member)
    return chains


def _classifier(path: Path, arrays: Mapping[str, NDArray[Any]], chain: ChainAbout, column: int,
                values: int) -> ParameterClassifier:
    seen = chain.seen[column]
    if list(seen) != sorted(set(seen)) or not seen or seen[0] < 0 or seen[-1] >= values:
        raise CheckpointError(f"{path}: the trees of {chain.kernel:.60} choose values that the kernel does not have")
    if len(seen) == 1:
        return ParameterClassifier(np.array(seen, np.int64), None)
    features = TREE_FEATURES + (chain.member is not None) + column
    forest = read_forest(path, arrays, f"{chain.trees}/{column}/", len(seen), features)
    return ParameterClassifier(np.array(seen, np.int64), forest)
