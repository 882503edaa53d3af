"""The strides that a module remembers for the operands of its latest calls."""

from __future__ import annotations

import torch

from seqtune.networks.module import MOST_FORMATS, ResultStrides


def test_strides_of_many_inputs_are_remembered_for_the_last_ones() -> None:
    known = ResultStrides()
    for size in range(MOST_FORMATS + 1):
        known.learn(((size, 1),), [torch.ones(2, 3), None])
    assert known.find(((0, 1),)) is None
    assert known.find(((MOST_FORMATS, 1),)) == [(3, 1), None]


def test_the_format_that_was_refused_first_is_forgotten_first() -> None:
    formats = ResultStrides()
    strides = [((number, 1),) for number in range(MOST_FORMATS + 1)]
    for operands in strides:
        formats.refuse(operands)
    assert [formats.are_refused(operands) for operands in strides] == [False] + [True] * MOST_FORMATS
