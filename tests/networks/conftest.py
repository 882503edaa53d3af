"""Models are optimised without measuring, on one thread; see `tests/support/networks/fixtures.py`."""

from __future__ import annotations

from tests.support.networks.fixtures import one_thread, own_journal, quick, seed

__all__ = ["one_thread", "own_journal", "quick", "seed"]
