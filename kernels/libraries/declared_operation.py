"""DeclaredOperation: an operation made from a library's document, without a class of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ExpressionError, FormatError, ProblemError, shown

from ..arithmetic import LARGEST_NUMBER
from ..expression import Expression
from ..launches.c_types import scalar
from ..launches.contents import COPY_OF, DRAWN, KNOWN, RandomNumbers, copied_input, read_array
from ..launches.reference_results import name_reference, reference_results
from ..operations.feature import LARGEST_TENSOR, Feature, Value
from ..operations.operation import Operation, ProblemView, Shape
from ..operations.tensor import Contents, Tensor, Tensors
from .document import FeatureDocument, OperationDocument
from .fault import KEY, DocumentFault, KeyPath, at_path
from .files import inside

RESERVED = ("type", "name", "count")  # columns of a CSV file of problems that are not features
TYPICAL_SIZE = 256  # required whole numbers in an example, if their bounds allow it
STEPS = (1, 8, 32, 32)  # sizes are drawn as multiples of these: tiles divide most sizes that people use
LARGEST_DRAWN = 4096  # whole numbers without an upper bound, in random problems


class DeclaredOperation(Operation):
    """An operation whose features, rules, operands and output are declared in a document.

    Raises DocumentFault with the path within the document.
    """

    declares_tensors = True

    def __init__(self, name: str, document: OperationDocument, code: str | None = None,
                 folder: Path | None = None) -> None:
        self.name = name
        self.document = document
        self.code = code  # "module:function" of the reference, importable
        self.results_by = "" if code is None else name_reference(name, code)
        self.agrees_with_default = bool(document.outputs) and code is None and document.expected is None
        self.folder = folder  # holds the files with data
        self.meaning = document.meaning or name
        self.features = tuple(_feature(name, declared) for name, declared in document.features.items())
        self.derived = _derived(document, self.by_name)
        names = {*self.by_name, *(quantity for quantity, _ in self.derived)}
        self.rules = tuple((expression_of(text, names, "rules", text), reason)
                           for text, reason in document.rules.items())
        self.sizes = self.quantities = self.tiled_sizes = _sizes(document, self.features)
        self.shapes = {array: _shape(declared.shape, names, part, array)
                       for part, arrays in (("inputs", document.inputs), ("outputs", document.outputs))
                       for array, declared in arrays.items()}
        self.has_output = bool(document.outputs)
        _check_arrays(document, folder)
        self.example = document.example or " ".join([name, *(
            f"{feature.name}={_typical(feature)}" for feature in self.features if feature.required)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeclaredOperation) and (other.name, other.document) == (self.name, self.document)

    def __hash__(self) -> int:
        return hash(self.name)

    def shape(self, problem: ProblemView, array: str) -> Shape:
        """The shape of an input or output, by its name. Raises ProblemError if an axis is not a positive number."""
        expression = self.shapes[array]
        try:
            axes = expression(self.names(problem))
        except ExpressionError as error:
            raise ProblemError(f"{self.name}: the shape of {array}: {error}") from None
        sizes = []
        for axis in axes:
            size = int(axis) if isinstance(axis, float) and axis.is_integer() else axis
            if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= LARGEST_TENSOR:
                raise ProblemError(f"{self.name}: {array} has an axis of {shown(size)} elements: "
                                   f"{expression.text[:60]}")
            sizes.append(size)
        if math.prod(sizes) > LARGEST_TENSOR:
            raise ProblemError(f"{self.name}: {array} is too large")
        return tuple(sizes)

    def names(self, problem: ProblemView) -> dict[str, Value]:
        """Features and derived sizes by name; a size that reads an unknown feature is unknown (None)."""
        values = dict(problem.features)
        for name, expression in self.derived:
            unknown = any(values.get(used) is None for used in expression.names)
            values[name] = None if unknown else expression(values)
        return values

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        """The shapes of the inputs by name, in the order of the document. Raises ProblemError."""
        return {array: self.shape(problem, array) for array in self.document.inputs}

    def output(self, problem: ProblemView) -> Shape:
        """The shape of the first output. Raises ProblemError if none is declared."""
        if not self.document.outputs:
            raise ProblemError(f"{self.name} declares no output to check")
        return self.shape(problem, next(iter(self.document.outputs)))

    def tensors(self, problem: ProblemView) -> Tensors:
        """The inputs and outputs as declared. Raises ProblemError."""
        tensors = Tensors(
            {name: Tensor(self.shape(problem, name), declared.dtype, contents_of(declared.values, self.folder),
                          restore=declared.restore)
             for name, declared in self.document.inputs.items()},
            {name: Tensor(self.shape(problem, name), declared.dtype, contents_of(declared.values, self.folder),
                          declared.tolerance, declared.check == "sum", declared.restore)
             for name, declared in self.document.outputs.items()})
        for name, tensor in tensors.outputs.items():
            source = copied_input(tensor.values)
            if source is not None and tensor.size != tensors.inputs[source].size:
                raise ProblemError(f"{self.name}: {name} {tensor.shape} starts as a copy of {source} "
                                   f"{tensors.inputs[source].shape}, which has another number of elements")
        return tensors

    def results(self, problem: ProblemView, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | None:
        """The outputs from the reference function or from files; None if neither is declared. Raises SeqtuneError."""
        outputs = self.tensors(problem).outputs
        if self.code is not None:
            return reference_results(self.name, self.code, arrays, self.names(problem), outputs)
        if self.document.expected is None:
            return None
        missing = next((name for name in outputs if name not in self.document.expected), None)
        if missing is not None:
            raise ProblemError(f"{self.name}: no expected data are declared for {missing}")
        return {name: read_array(inside(self.folder, self.document.expected[name]), tensor.shape)
                for name, tensor in outputs.items()}

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Draw whole numbers log-uniformly within their bounds, and choices uniformly; they need not obey the rules."""
        return {feature.name: _drawn(feature, generator) for feature in self.features}


def contents_of(values: str | float | None, folder: Path | None) -> Contents:
    """Declared contents, with the path of a file in the folder in place of its name. Raises FormatError."""
    if not isinstance(values, str) or values in DRAWN or RandomNumbers.of(values) or copied_input(values) is not None:
        return values
    if not values.endswith(".npy"):
        raise FormatError(f"no contents {values!r:.40}; there are {KNOWN}, a .npy file and, for an output, "
                          f"'{COPY_OF}INPUT'")
    return inside(folder, values)


def expression_of(text: str, names: Iterable[str] | None, *path: str | int) -> Expression:
    """Parse an expression over these names (None: any names). Raises DocumentFault at the path."""
    with at_path(*path):
        expression = Expression(text)
    if names is not None:
        check_names(expression, names, text, *path)
    return expression


def check_names(expression: Expression, names: Iterable[str], text: str, *path: str | int) -> None:
    """Check that an expression, written as `text`, reads these names alone. Raises DocumentFault at the path."""
    unknown = [name for name in expression.names if name not in set(names)]
    if unknown:
        raise DocumentFault(path, f"unknown name {unknown[0]!r:.60} in {text!r:.80}")


def _feature(name: str, declared: FeatureDocument) -> Feature:
    """The feature of a document. Raises DocumentFault."""
    path = ("features", name)
    if name in RESERVED:
        raise DocumentFault((*path, KEY), f"a feature cannot be called {name!r}; files of problems have such a column")
    if "choices" in declared.model_fields_set and not declared.choices:
        raise DocumentFault((*path, "choices"), "there is no choice; list some, or leave it out for a whole number")
    if declared.choices and declared.number:
        raise DocumentFault((*path, "number"), "a feature with choices is no number")
    words, numbers = _choices(declared, path)
    bound = next((bound for bound in ("low", "high") if bound in declared.model_fields_set), None)
    if declared.number and bound is not None:
        raise DocumentFault((*path, bound, KEY), "a feature with number = true is any positive number; bounds are for "
                                                 'whole numbers, and a rule bounds others (rules = {"' f'{name} <= 2" '
                                                 '= "reason"})')
    if numbers and bound is not None:
        raise DocumentFault((*path, bound, KEY), "choices that are whole numbers are the only values, so there are no "
                                                 "bounds")
    low, high = declared.low, LARGEST_TENSOR if declared.high is None else declared.high
    if numbers:
        low, high = min(numbers), max(numbers)
    if low > high:
        raise DocumentFault((*path, "low"), f"low={low} is above high={high}")
    meaning = f"{declared.meaning or name} ({declared.unit})" if declared.unit else declared.meaning or name
    feature = Feature(name, meaning, None, low, high, words, declared.number, declared.default is None, numbers)
    with at_path(*path, "default"):
        return replace(feature, default=feature.check(declared.default))


def _choices(declared: FeatureDocument, path: KeyPath) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words and the whole numbers among the choices; one of the two is empty. Raises DocumentFault."""
    words = tuple(choice for choice in declared.choices if isinstance(choice, str))
    numbers = tuple(choice for choice in declared.choices if isinstance(choice, int))
    if words and numbers:
        other = numbers[0] if declared.choices[0] == words[0] else words[0]
        raise DocumentFault((*path, "choices", declared.choices.index(other)),
                            f"{other!r:.60} and {declared.choices[0]!r:.60} are choices of one feature; write all as "
                            "words or all as whole numbers")
    if len({choice.lower() for choice in words}) < len(words):
        raise DocumentFault((*path, "choices"), "a choice is listed twice (upper and lower case are equal)")
    if len(set(numbers)) < len(numbers):
        raise DocumentFault((*path, "choices"), "a choice is listed twice")
    return words, numbers


def _derived(document: OperationDocument, features: Mapping[str, Feature]) -> tuple[tuple[str, Expression], ...]:
    names, quantities = set(features), []
    for name, text in document.derived.items():
        if name in features:
            raise DocumentFault(("derived", name, KEY), f"{name!r} is the name of a feature, too")
        quantities.append((name, expression_of(text, names, "derived", name)))
        names.add(name)
    return tuple(quantities)


def _sizes(document: OperationDocument, features: Iterable[Feature]) -> tuple[str, ...]:
    """The features that are compared by their ratio: `sizes`, or all whole numbers. Raises DocumentFault."""
    whole = [feature.name for feature in features if not feature.choices and not feature.number]
    if document.sizes is None:
        return tuple(whole)
    for index, name in enumerate(document.sizes):
        if name not in whole or name in document.sizes[:index]:
            raise DocumentFault(("sizes", index), f"{name!r:.60} is listed twice" if name in whole else
                                f"{name!r:.60} is no feature that is a whole number")
    return tuple(document.sizes)


def _shape(text: str, names: Iterable[str], part: str, array: str) -> Expression:
    """The expression of a shape, a tuple; it is written as axes separated by commas. Raises DocumentFault."""
    expression = expression_of(f"({text},)", None, part, array, "shape")
    check_names(expression, names, text, part, array, "shape")
    return expression


def _check_arrays(document: OperationDocument, folder: Path | None) -> None:
    """Check the names and contents of inputs and outputs, and what outputs are compared with. Raises DocumentFault."""
    for part, arrays in (("inputs", document.inputs), ("outputs", document.outputs)):
        for array, declared in arrays.items():
            with at_path(part, array, "values"):
                contents_of(declared.values, folder)
                if (source := copied_input(declared.values)) is not None:
                    _check_copy(document, array, source)
                if (numbers := RandomNumbers.of(declared.values)) is not None:
                    numbers.check(declared.dtype)
                if isinstance(declared.values, int | float):
                    scalar(declared.dtype, declared.values)  # raises if the type cannot hold it
    for array, output in document.outputs.items():
        if array in document.inputs:
            raise DocumentFault(("outputs", array, KEY), f"{array!r} is the name of an input, too")
        if output.values is None and output.restore and "restore" in output.model_fields_set:
            raise DocumentFault(("outputs", array, "restore"), f"{array} has no values that could be restored")
    if document.reference is not None and document.expected is not None:
        raise DocumentFault(("expected",), "give either a reference or expected data")
    for array in document.expected or ():
        if array not in document.outputs:
            raise DocumentFault(("expected", array, KEY), f"no output is called {array!r}")


def _check_copy(document: OperationDocument, array: str, source: str) -> None:
    """Check that an array may start as a copy of another: an output as that of an input. Raises FormatError."""
    if array in document.inputs:
        raise FormatError("only an output can start as a copy of an input")
    if source not in document.inputs:
        raise FormatError(f"no input is called {source!r:.60}; there are {', '.join(document.inputs) or 'none'}")
    types = document.outputs[array].dtype, document.inputs[source].dtype
    if types[0] != types[1]:
        raise FormatError(f"{array} is {types[0]} and cannot start as a copy of {source}, which is {types[1]}")


def _typical(feature: Feature) -> Value:
    """A value of a required feature for an example."""
    if feature.choices:
        return feature.choices[0]
    return 1.0 if feature.number else feature.nearest(TYPICAL_SIZE)


def _drawn(feature: Feature, generator: np.random.Generator) -> Value:
    if listed := feature.choices or feature.numbers:
        return listed[int(generator.integers(len(listed)))]
    if feature.number:
        return feature.default if feature.default is not None else 1.0
    high = min(feature.high, max(LARGEST_DRAWN, 16 * feature.low)) if feature.high >= LARGEST_TENSOR else feature.high
    if feature.low < 1:
        return int(generator.integers(feature.low, min(high, LARGEST_NUMBER - 1), endpoint=True))
    size = min(high, round(math.exp(generator.uniform(math.log(feature.low), math.log(high)))))
    step = int(generator.choice(STEPS))
    return max(size - size % step, feature.low) if size >= 2 * step else size
