"""Look-up: the object behind a `module:attribute` string of one of our tables."""

from __future__ import annotations

import importlib


def resolve(reference: str) -> object:
    """The object behind `module:attribute` (or `module:attribute.attribute`). Only for strings of our own tables."""
    module, _, attributes = reference.partition(":")
    value: object = importlib.import_module(module)
    for attribute in attributes.split("."):
        value = getattr(value, attribute)
    return value
