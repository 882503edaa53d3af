"""Rows are kept for problems and kernels that share them, within a bound."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.row_index import PrefixBorders
from seqtune.kernels.spaces.row_cache import RowCache, ValidRows

KERNEL = Kernel("toy.cached", "gemm", ("toy",), (Parameter("a", tuple(range(100))),), (), ())


def found(count: int) -> ValidRows:
    rows = np.zeros((count, 1), np.int16)
    return ValidRows(rows, PrefixBorders(rows))


def rows(cache: RowCache, count: int, kernel: Kernel = KERNEL) -> tuple[ValidRows, bool]:
    """`count` rows of the cache, and whether it had them."""
    names = (("n", count),)
    known = cache.known(kernel, names)
    if known is not None:
        return known, True
    cache.keep(kernel, names, made := found(count))
    return made, False


def test_equal_names_share_rows_and_so_do_kernels_that_differ_in_their_names() -> None:
    cache = RowCache()
    first = rows(cache, 7)[0]
    assert rows(cache, 7, replace(KERNEL, name="toy.renamed", operation="conv2d")) == (first, True)
    assert not rows(cache, 7, replace(KERNEL, parameters=(Parameter("a", tuple(range(99))),)))[1]


def test_the_memory_of_the_cache_is_bounded_and_the_least_recently_used_rows_go() -> None:
    each = found(1000).bytes
    cache = RowCache(3 * each)
    known = [rows(cache, count)[1] for count in (1000, 999, 998, 1000, 997)]  # with the last one, 999 goes
    assert known == [False, False, False, True, False]
    assert cache.bytes <= 3 * each
    assert rows(cache, 1000)[1]
    assert not rows(cache, 999)[1]
    rows(cache, 100_000)  # larger than the bound: kept alone
    assert cache.bytes == found(100_000).bytes
    rows(cache, 5)
    assert cache.bytes == found(5).bytes


def test_threads_share_a_cache() -> None:
    cache = RowCache(200 * found(100).bytes)

    def ask(seed: int) -> None:
        for count in np.random.default_rng(seed).integers(1, 200, 300).tolist():
            assert len(rows(cache, count)[0].rows) == count

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.bytes <= 200 * found(100).bytes
