"""Network problems: what the contest's networks ask of the kernels, and seeded problems like them, in two parts.

The networks are those of `benchmarks networks`; `network_problems.json` holds the distinct problems of each, as the
PyTorch layer lowers it: images are NHWC, and bias and activation belong to the layer. Ten networks are held out whole:
no model learns from their problems, in any element type, or from problems near to them. The training part is the
problems of the other networks and seeded ones of every kind, which the file holds, too. The file never changes: the
shipped measurements are of these problems.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from benchmarks.networks.models import NETWORKS
from seqtune.errors import ProblemError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import ProblemSplit, problems
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

from .locked_problems import locked_problems

ELEMENTS = ("fp32", "bf16")
FILE = Path(__file__).with_name("network_problems.json")
# Never held out: models have always learned from their problems.
TRAINED = ("VGG-16", "ResNet-18", "ResNet-50", "BERT-base", "DistilBERT", "GPT-2-prefill", "GPT-2-decode")
ALSO_HELD_OUT = ("MobileNet-V2",)  # held out in `collected`, too
EVERY, FIRST = 3, 1  # sorted by the checksums of their names, the second, fifth, ... other network is learned from
SEEDED = "seeded"  # the name of the seeded problems in the file


def held_out_networks() -> tuple[str, ...]:
    """The names of the networks that are held out whole, in the order of the contest."""
    others = sorted((name for name in NETWORKS if name not in (*TRAINED, *ALSO_HELD_OUT)),
                    key=lambda name: zlib.crc32(name.encode()))
    learned = {*TRAINED, *others[FIRST::EVERY]}
    return tuple(name for name in NETWORKS if name not in learned)


@lru_cache(maxsize=1)
def problems_by_network() -> Mapping[str, tuple[Problem, ...]]:
    """The distinct problems of each network, in the order in which it runs them, and the seeded ones under SEEDED."""
    return {name: tuple(map(parse_problem, keys)) for name, keys in json.loads(FILE.read_text()).items()}


@lru_cache(maxsize=4)
def network_problems(dtype: str = "fp32") -> ProblemSplit:
    """The split of the networks' problems in an element type; every call returns the same ones.

    Locked problems are in neither part. No training problem is near a held-out or a locked one, in any layout.
    """
    known = problems_by_network()
    held_out = _held_out(known)
    avoided, locked = SimilarityIndex(_avoided(held_out)), set(locked_problems())
    learned = dict.fromkeys(problem for name, layers in known.items() if name not in held_out_networks()
                            for problem in layers if not avoided.has_near(problem))
    return ProblemSplit(*(tuple(typed for problem in part if problem not in locked
                                if (typed := _of_type(problem, dtype)) is not None) for part in (learned, held_out)))


def _held_out(known: Mapping[str, tuple[Problem, ...]]) -> dict[Problem, None]:
    return dict.fromkeys(problem for name in held_out_networks() for problem in known[name])


def _avoided(held_out: Iterable[Problem]) -> list[Problem]:
    """The problems near to which nothing is learned: held-out and locked ones, in both layouts."""
    return [twin for problem in (*held_out, *problems().held_out, *locked_problems()) for twin in _in_networks(problem)]


def _in_network(problem: Problem) -> Problem:
    form = {"layout": "NHWC"} if problem.type == "conv2d" else {"trans_a": "no", "trans_b": "yes"}
    return Problem.make(problem.type, **{**dict(problem), **form})


def _in_networks(problem: Problem) -> tuple[Problem, ...]:
    """The problem and, of a convolution, the one in the form of networks."""
    return (problem, _in_network(problem)) if problem.type == "conv2d" else (problem,)


def _of_type(problem: Problem, dtype: str) -> Problem | None:
    """The problem with operands of an element type; None if there is no such problem."""
    try:
        return Problem.make(problem.type, **{**dict(problem), "dtype": dtype})
    except ProblemError:
        return None
