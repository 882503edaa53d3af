"""Near names: the feature that a user probably meant by a name that an operation does not have."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from .operation import Operation

# Words of frameworks -> our features and shorthands, the first of which an operation has
SYNONYMS: dict[str, tuple[str, ...]] = {
    "padding": ("pad",), "strides": ("stride",), "dilations": ("dilation",), "group": ("groups",),
    "kernel": ("filter",), "kernel_size": ("filter",), "filters": ("k",), "filter_size": ("filter",),
    "channels": ("c",), "in_channels": ("c",), "out_channels": ("k",),
    "batch": ("n",), "batch_size": ("n",), "height": ("h",), "width": ("w",),
    "type": ("dtype",), "precision": ("dtype",),
    "rows": ("m",), "columns": ("n",), "cols": ("n",), "depth": ("k",), "seq_len": ("q_len",), "dim": ("head_dim",)}


def near_name(name: str, work: Operation) -> str | None:
    """The feature or shorthand of an operation that is nearest to an unknown name; None if none is near."""
    known = [*work.shorthands, *work.by_name]
    for meant in SYNONYMS.get(name.lower(), ()):
        if meant in known:
            return meant
    return close_name(name, known)


def close_name(name: str, known: Collection[str]) -> str | None:
    """The known name that is written most like another one; None if none is."""
    return next(iter(get_close_matches(name.lower(), known, 1)), None)
