"""SeenProblems: a compact set of the problems that a model learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from seqtune.data.formats.miopen_import import read_files
from seqtune.data.labels import read_solver_timings
from seqtune.predictor.choices.seen_problems import SeenProblems
from tests.support.planted_labels import find_file


def test_what_was_learned_from_is_known_and_little_else() -> None:
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2**64, 5000, dtype=np.uint64)
    learned = SeenProblems.of(hashes[:3000])
    assert learned.contains(hashes[:3000]).all()
    assert learned.contains(hashes[3000:]).mean() < 0.03
    assert len(learned.bits) <= 2 * 3000
    assert not SeenProblems.of(np.zeros(0, np.uint64)).contains(hashes).any()


def test_who_has_learned_a_problems_times_has_not_learned_its_labels(tmp_path: Path) -> None:
    timings = read_solver_timings(read_files([find_file(tmp_path)])[0])
    assert timings is not None
    learned = SeenProblems.of(timings.hashes)
    assert learned.contains(timings.hashes).all()
    assert learned.contains(timings.queries.hashes).mean() < 0.1
