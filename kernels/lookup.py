"""Look-up: imports the object that a string `module:attribute` in a table names."""

from __future__ import annotations

import importlib


def resolve(reference: str) -> object:
    """Import the object named by `module:attribute` or `module:attribute.attribute`.

    Only strings of this package's tables may be passed: the import runs code.
    """
    module, _, attributes = reference.partition(":")
    value: object = importlib.import_module(module)
    for attribute in attributes.split("."):
        value = getattr(value, attribute)
    return value
