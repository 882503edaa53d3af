"""Rows are kept for problems and kernels that share them, within a bound."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.row_index import PrefixBorders
from seqtune.kernels.spaces.row_cache import Names, RowCache, ValidRows

KERNEL = Kernel("toy.cached", "gemm", ("toy",), (Parameter("a", tuple(range(100))),), (), ())


def found(count: int) -> ValidRows:
    rows = np.zeros((count, 1), np.int16)
    return ValidRows(rows, PrefixBorders(rows))


class Finder:
    """Finds as many rows as the name `n` says, and remembers for which values."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, kernel: Kernel, names: Names, device_names: frozenset[str]) -> ValidRows:
        (_, count), = names
        self.asked.append(count)
        return found(count)


def test_equal_names_share_rows_and_so_do_kernels_that_differ_in_their_names() -> None:
    cache, find = RowCache(), Finder()
    first = cache.rows(KERNEL, (("n", 7),), frozenset(), find)
    again = cache.rows(replace(KERNEL, name="toy.renamed", operation="conv2d"), (("n", 7),), frozenset(), find)
    assert first is again
    other = replace(KERNEL, parameters=(Parameter("a", tuple(range(99))),))
    assert cache.rows(other, (("n", 7),), frozenset(), find) is not first
    assert find.asked == [7, 7]


def test_the_memory_of_the_cache_is_bounded_and_the_least_recently_used_rows_go() -> None:
    each = found(1000).bytes
    cache, find = RowCache(3 * each), Finder()
    for count in (1000, 999, 998):
        cache.rows(KERNEL, (("n", count),), frozenset(), find)
    cache.rows(KERNEL, (("n", 1000),), frozenset(), find)
    cache.rows(KERNEL, (("n", 997),), frozenset(), find)  # 999 goes
    assert cache.bytes <= 3 * each
    cache.rows(KERNEL, (("n", 1000),), frozenset(), find)
    assert find.asked == [1000, 999, 998, 997]
    cache.rows(KERNEL, (("n", 999),), frozenset(), find)
    assert find.asked[-1] == 999
    cache.rows(KERNEL, (("n", 100_000),), frozenset(), find)  # larger than the bound: kept alone
    assert cache.bytes == found(100_000).bytes
    cache.rows(KERNEL, (("n", 5),), frozenset(), find)
    assert cache.bytes == found(5).bytes


def test_threads_share_a_cache() -> None:
    cache, find = RowCache(200 * found(100).bytes), Finder()

    def ask(seed: int) -> None:
        for count in np.random.default_rng(seed).integers(1, 200, 300).tolist():
            assert len(cache.rows(KERNEL, (("n", count),), frozenset(), find).rows) == count

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.bytes <= 200 * found(100).bytes
