"""Random configurations of a kernel family over random problems that it solves, for checks of whole families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from seqtune.errors import ProblemError

from ..devices.device import Device
from ..kernel import Configuration, Kernel
from ..operations.table import operation
from ..problem import Problem
from ..space import SearchSpace
from .sampler import LARGEST_OPERAND, largest_tensor

MOST_DRAWS = 5000  # drawn problems; a family that solves fewer than one in a hundred gets a smaller sample
FOR_EACH_PROBLEM = 5  # configurations; fewer problems would cost less time and check less


def random_configurations(family: Kernel, device: Device, count: int, seed: int,
                          problems: Sequence[Problem] = ()) -> list[tuple[Problem, Configuration]]:
    """Draw up to `count` different (problem, configuration) pairs; fewer where the family has no more.

    The problems are the given ones, or drawn by the operation's sampler in every element type and layout that the
    family solves. The same seed gives the same pairs.
    """
    generator = np.random.default_rng(seed)
    drawn: dict[tuple[Problem, Configuration], None] = {}
    each = -(-count // len(problems)) if problems else FOR_EACH_PROBLEM
    for problem in problems or random_problems(family.operation, generator):
        if len(drawn) >= count:
            break
        if family.why_not(problem, device) is None:
            space = SearchSpace(family, problem, device)
            for configuration in space.sample(generator, min(each, count - len(drawn))) if len(space) else []:
                drawn.setdefault((problem, configuration))
    return list(drawn)


def random_problems(type_name: str, generator: np.random.Generator) -> Iterator[Problem]:
    """Random problems of an operation, each with a random element type and layout, from MOST_DRAWS drawings."""
    work = operation(type_name)
    for _ in range(MOST_DRAWS):
        features: dict[str, Any] = work.draw(generator)
        for name in ("dtype", "layout"):
            if name in work.by_name and (choices := work.by_name[name].choices):
                features[name] = choices[generator.integers(len(choices))]
        with suppress(ProblemError):  # for example, a filter larger than its input
            problem = Problem.make(work.name, **features)
            if largest_tensor(problem) < LARGEST_OPERAND:
                yield problem
