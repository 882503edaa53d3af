"""Threads: the number of threads that torch computes with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from seqtune.errors import is_installed


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Make torch compute on one thread inside the context: in small networks, threads mostly wait for each other.

    Without PyTorch nothing changes.
    """
    if not is_installed("torch"):
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
