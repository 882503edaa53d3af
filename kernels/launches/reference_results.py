"""Reference results: calls the function that a library names as the reference of an operation, and checks its answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError, one_line

from ..lookup import resolve
from ..operations.tensor import Tensor

Arrays = Mapping[str, NDArray[Any]]


def name_reference(operation: str, code: str) -> str:
    """The reference of an operation in words, for messages; `code` is "module:function"."""
    return f"the reference {code.rpartition('.')[2]} of {operation}"


def reference_results(operation: str, code: str, arrays: Arrays, sizes: Mapping[str, Any],
                      outputs: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """The outputs by name that `module:function` computes. Raises ProblemError.

    The function gets as keywords those that it names: inputs, contents of outputs, features and derived sizes.
    """
    where = name_reference(operation, code)
    try:
        function: Any = resolve(code)
        answer = function(**_wanted(function, {**sizes, **{name: array.copy() for name, array in arrays.items()}}))
    except BaseException as error:  # foreign code may raise anything; a worker gets no KeyboardInterrupt from outside
        raise ProblemError(f"{where} failed: {one_line(f'{type(error).__name__}: {error}')}") from None
    if not isinstance(answer, Mapping):
        if len(outputs) != 1:
            raise ProblemError(f"{where} returns one array; a dict of {', '.join(outputs)} is needed")
        answer = {next(iter(outputs)): answer}
    missing = [name for name in outputs if name not in answer]
    if missing:
        raise ProblemError(f"{where} returns no {missing[0]!r}")
    return {name: _numbers(where, name, answer[name], tensor) for name, tensor in outputs.items()}


def _wanted(function: Callable[..., Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that a function takes by name: all if it takes any keyword."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return values
    return {name: values[name] for name in parameters if name in values}


def _numbers(where: str, name: str, value: Any, tensor: Tensor) -> NDArray[Any]:
    """An array of the declared shape; one number may have any axes. Raises ProblemError."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ProblemError(f"{where} returns {array.dtype} for {name}, which are no numbers")
    if array.shape != tensor.shape and not array.size == tensor.size == 1:
        raise ProblemError(f"{where} returns the shape {array.shape} for {name}; {tensor.shape} is declared")
    return array.reshape(tensor.shape)
