"""Look-up: imports the object that a string `module:attribute` in a table names."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

NONE: Mapping[str, str] = MappingProxyType({})


def resolve(reference: str) -> object:
    """Import the object named by `module:attribute` or `module:attribute.attribute`.

    Only strings of this package's tables may be passed: the import runs code.
    """
    module, _, attributes = reference.partition(":")
    value: object = importlib.import_module(module)
    for attribute in attributes.split("."):
        value = getattr(value, attribute)
    return value


def lazily(module: str, references: Mapping[str, str],
           names: Sequence[str], former: Mapping[str, str] = NONE,
           ) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module that imports what its `references` name when it is first asked for.

    `names` are those that the module offers. `former` gives today's name for each deprecated one, which still works and
    warns.
    """
    own = vars(sys.modules[module])

    def getattribute(name: str) -> object:
        if name in former:
            warnings.warn(f"{module}.{name} is now called {former[name]}", DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[module], former[name])
        if name not in references:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = own[name] = resolve(references[name])
        return value

    return getattribute, lambda: sorted({*own, *names})
