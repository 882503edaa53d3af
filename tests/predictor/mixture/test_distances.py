"""Distances from known points: the bits of a sum over coordinates in their order, whatever else is asked."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.predictor.mixture.distances import BLOCK, KnownPoints


@pytest.mark.parametrize(("asked", "known", "coordinates"),
                         [(25, 150, 105), (1, BLOCK, 15), (3, 4, 1), (2, BLOCK + 1, 0), (7, 2 * BLOCK, 22)])
def test_squares_are_added_in_the_order_of_the_coordinates(asked: int, known: int, coordinates: int) -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(asked, coordinates))
    others = generator.normal(size=(known, coordinates)).astype(np.float32)
    squares = np.zeros((asked, known))
    for own, other in zip(points.T, others.T.astype(np.float64), strict=True):
        squares += (own[:, None] - other) * (own[:, None] - other)
    table = KnownPoints(others)
    distances = table.distances(points)
    assert np.array_equal(distances, np.sqrt(squares))
    assert np.array_equal(table.distances(points[-1:])[0], distances[-1])
    assert np.array_equal(table.distances(np.asfortranarray(points)), distances)
