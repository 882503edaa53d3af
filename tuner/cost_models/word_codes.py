"""Word codes: numbers for derived quantities that are words, as trees read them.

The code of a word is its index among the words that the kernel's declaration can give, in alphabetical order; the words
of other rows do not matter.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.table import operation
from seqtune.kernels.task import Floats

from .encoding import encode_value


def word_codes(kernel: Kernel, name: str, words: NDArray[Any]) -> Floats:
    """The codes of the words of a derived quantity, (row,). Words that the declaration does not name come last."""
    declared = {word: float(code) for code, word in enumerate(declared_words(kernel).get(name, ()))}
    distinct, inverse = np.unique(words.astype(str), return_inverse=True)
    codes = [declared.get(word, len(declared) + encode_value(word, 0.0)) for word in distinct.tolist()]
    return np.array(codes, np.float64)[inverse]


def declared_words(kernel: Kernel) -> Mapping[str, tuple[str, ...]]:
    """The words that each derived quantity can be, in alphabetical order; quantities that are no words are left out.

    The choices of the operation's features are unknown where its library is not in use.
    """
    try:
        features = operation(kernel.operation).features
    except SeqtuneError:
        features = ()
    return _declared_words(kernel, tuple((feature.name, feature.choices) for feature in features if feature.choices))


@lru_cache(maxsize=256)
def _declared_words(kernel: Kernel, choices: tuple[tuple[str, tuple[str, ...]], ...]) -> Mapping[str, tuple[str, ...]]:
    """The words as `declared_words` gives them, for these choices of features."""
    known: dict[str, set[str]] = {name: set(words) for name, words in choices}
    known |= {parameter.name: {value for value in parameter.values if isinstance(value, str)}
              for parameter in kernel.parameters}
    for name, expression in kernel.derived:
        known[name] = _words(ast.parse(expression.text, mode="eval").body, known)
    return {name: tuple(sorted(known[name])) for name, _ in kernel.derived if known[name]}


def _words(node: ast.expr, known: Mapping[str, set[str]]) -> set[str]:
    """The words that an expression can be, given those of the names in it."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.Name(id=name):
            return known.get(name, set())
        case ast.IfExp(body=first, orelse=second):
            return _words(first, known) | _words(second, known)
        case ast.Subscript(value=ast.Dict(values=values)) | ast.BoolOp(values=values):
            return set().union(*(_words(value, known) for value in values))
        case _:
            return set()
