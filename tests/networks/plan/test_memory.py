"""The memory plan: buffers that live at the same time never overlap, others share memory."""

from __future__ import annotations

import itertools
import random

import pytest

from seqtune.networks.plan.memory import LINE, Buffer, plan


@pytest.mark.parametrize("seed", range(5))
def test_buffers_that_live_at_the_same_time_never_share_memory(seed: int) -> None:
    generator = random.Random(seed)
    buffers = []
    for _ in range(40):
        buffer = Buffer(generator.randrange(1, 2000))
        first = generator.randrange(30)
        for job in (first, first + generator.randrange(6)):
            buffer.used_by(job)
        buffers.append(buffer)
    size = plan([*buffers, Buffer(10_000)])  # one that nothing uses takes no memory
    for buffer in buffers:
        assert buffer.begin % LINE == 0
        assert buffer.begin + buffer.size <= size
    for one, other in itertools.combinations(buffers, 2):
        if one.first <= other.last and other.first <= one.last:
            assert one.begin + one.size <= other.begin or other.begin + other.size <= one.begin
    assert size < sum(buffer.size for buffer in buffers)


def test_a_chain_needs_the_memory_of_two_buffers() -> None:
    buffers = [Buffer(256, first=job, last=job + 1) for job in range(10)]
    assert plan(buffers) == 512
    assert plan([]) == 0
