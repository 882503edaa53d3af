"""The comparison of a checkpoint's parts: its intervals, and the paragraph that follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.report import Row
from benchmarks.prediction.checkpoint_parts import PartShares, paragraph


def cases(transformer: float, trees: float, both: float, noise: float = 0.01) -> list[Row]:
    """Made-up cases of 40 problems on two devices, with exactly these mean log shares."""
    logs = np.random.default_rng(0).normal(0, noise, (80, 3))
    logs += np.array([transformer, trees, both]) - logs.mean(axis=0)
    return [{"device": f"toy:{index % 2}", "problem": str(index // 2), "shares": {
        part: [share] * 3 for part, share in zip(("transformer", "trees", "seqtune"), row, strict=True)}}
        for index, row in enumerate(np.exp(logs).tolist())]


@pytest.mark.parametrize(("means", "words"), [
    ((-0.06, -0.04, -0.02), ("is below the trees alone (-", "above the trees alone (+0.0", "significantly above both")),
    ((-0.04, -0.04, -0.02), ("is level with the trees alone", "significantly above both")),
    ((-0.02, -0.04, -0.02), ("is above the trees alone (+", "level with the transformer alone", "above one of them")),
    ((-0.04, -0.02, -0.03), ("is below the trees", "above the transformer alone", "above one of them only")),
    ((-0.02, -0.02, -0.02), ("level with the transformer alone", "level with the trees alone", "above neither"))])
def test_the_paragraph_says_plainly_which_part_is_better(means: tuple[float, ...], words: tuple[str, ...]) -> None:
    text = paragraph(cases(*means))
    for word in words:
        assert word in text
    assert "80 cases, 40 problems" in text


def test_intervals_draw_problems_and_not_their_devices() -> None:
    rows = cases(-0.03, -0.03, -0.03, noise=0.02)
    twice = [row | {"device": f"{row['device']}{copy}"} for row in rows for copy in range(4)]
    once, again = (PartShares(part).share("trees", 0) for part in (rows, twice))
    assert (again.low, again.high) == pytest.approx((once.low, once.high))  # copies of cases tell nothing new
    assert once.low < once.value < once.high
