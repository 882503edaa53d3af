"""Hooks of triton.autotune: `space`, `prune` and `record`. Their documented name is `seqtune.triton`."""

from __future__ import annotations

from .configs import space
from .pruning import prune
from .recording import Recording, record

__all__ = ["Recording", "prune", "record", "space"]
