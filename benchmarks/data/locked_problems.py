"""The locked test set: problems that no model learns from and no choice is made on, looked at once per release.

`locked_problems.json` holds them with the network that each is a layer of. Most are layers of networks that the data
does not hold, written from the architectures; the others were drawn, so that each kind (`kinds.kind_of`) has at least
LEAST problems. None is near a training or held-out problem in either layout. The file never changes: results of
another set cannot be compared.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem

LOCKED_VERSION = 1  # the set's version; results of different versions cannot be compared
LEAST = 10  # problems of each kind; an interval over fewer says little
FILE = Path(__file__).with_name("locked_problems.json")


@lru_cache(maxsize=1)
def locked_problems() -> tuple[Problem, ...]:
    """The locked problems, sorted by kind; every call returns the same ones."""
    return tuple(map(parse_problem, json.loads(FILE.read_text())))


def traits_of(problem: Problem) -> tuple[str, ...]:
    """Properties that problems of every kind can have: "NHWC", "epilogue" (bias or ReLU) and "batch" (above 1)."""
    features = dict(problem)
    traits = {"NHWC": features.get("layout") == "NHWC",
              "epilogue": features.get("bias") == "yes" or features.get("activation") == "relu",
              "batch": problem.type == "conv2d" and features.get("n") != 1}
    return tuple(name for name, holds in traits.items() if holds)
