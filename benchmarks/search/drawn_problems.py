"""Drawn problems: layers of networks that no data hold, drawn at random for comparisons of searches.

`drawn_problems.json` holds the candidates with their networks: layers of GoogLeNet (Szegedy et al., 2015, table 1),
SqueezeNet 1.1 (Iandola et al., 2016) and EfficientNet-B0 (Tan and Le, 2019, table 1), and products of DeiT-Tiny and
DeiT-Small (197 tokens), MiniLM and T5-Small (64 and 200 tokens). None is similar to a problem that was measured for
training or evaluation, or to one of the locked test set. Each is above the cost of a launch and takes 2 ms or less on
one core. A candidate is passed over on a device where its search space is so small that a hundred trials search a third
of it, or where building the space would take too long.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task

FILE = Path(__file__).with_name("drawn_problems.json")
OPENCL_FLOP = 30_000_000  # least of an OpenCL problem: PoCL wakes threads for every launch, and kernels of 80 us differ
#                           by 10 % from run to run
CONFIGURATIONS = (300, 20_000)  # least and most in a task
OPENCL_CONFIGURATIONS = 700  # most of an OpenCL task: PoCL takes half a second to build one


def candidates() -> list[Problem]:
    """The problems that can be drawn."""
    return list(map(parse_problem, json.loads(FILE.read_text())))


def drawn(devices: Sequence[Device], count: int, seed: int = 0) -> list[tuple[Device, Problem]]:
    """Draw `count` problems, on the devices in turn; every problem occurs once.

    Convolutions and products take turns on each device, as long as there are both. Fewer problems are returned if there
    are not enough candidates.
    """
    problems = candidates()
    random.Random(seed).shuffle(problems)
    chosen: list[tuple[Device, Problem]] = []
    while len(chosen) < count:
        device = devices[len(chosen) % len(devices)]
        last = next((problem.type for earlier, problem in reversed(chosen) if earlier == device), "")
        in_turn = sorted(problems, key=lambda problem: problem.type == last)  # stable: keeps the drawn order
        suitable = next((problem for problem in in_turn if is_searchable(problem, device)), None)
        if suitable is None:
            break
        problems.remove(suitable)
        chosen.append((device, suitable))
    return chosen


def is_searchable(problem: Problem, device: Device) -> bool:
    """Whether the problem and its space on a device are of a size that a search says something about."""
    is_opencl = device.backend == "opencl"
    if is_opencl and problem.size("flop") < OPENCL_FLOP:
        return False
    least, most = CONFIGURATIONS
    return least <= len(Task.of(problem, device)) <= (OPENCL_CONFIGURATIONS if is_opencl else most)
