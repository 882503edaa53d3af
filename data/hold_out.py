"""Holding out: which problems of a data set no model may learn from, as users name them.

A name is a problem set or a file, a condition on features such as `experts=64`, or a share of the problems such as
`20%`. A share is drawn from groups of near problems, since training on one of a group would give away the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import feature_value, problem_set
from seqtune.kernels.problem_sets.similarity import NEAR, near_groups
from seqtune.kernels.say import Say

SEED = 0  # of a drawn share: the same problems give the same parts
LARGEST = 0.5  # share of the problems that the smallest group may have where no group fits into the share
_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d+)?)\s*%|(?P<share>\d?\.\d+)")


def held_out_keys(problems: Iterable[Problem], names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """The keys of the problems that each of the names holds out.

    A set or a file holds out all its problems, whether they are among `problems` or not: data sets that are merged
    later may have them. Raises MisuseError for a share that cannot be drawn or a feature that no problem has, and
    ProblemError or FormatError for a set.
    """
    known = sorted({problem.key: problem for problem in problems}.items())
    return {name: frozenset(problem.key for problem in _named([problem for _, problem in known], name))
            for name in names}


def note_empty(held_out: Mapping[str, frozenset[str]], present: Iterable[str], note: Say) -> None:
    """Note each name that holds out none of the problems whose keys are present."""
    keys = frozenset(present)
    for name, own in held_out.items():
        if own.isdisjoint(keys):
            note(f"no record of {name}: it holds out nothing")


def _named(problems: Sequence[Problem], name: str) -> Sequence[Problem]:
    share = _SHARE.fullmatch(name.strip())
    if share is not None:
        return _drawn(problems, float(share["percent"]) / 100 if share["percent"] else float(share["share"]), name)
    if "=" in name and not Path(name).exists():
        return _matching(problems, name)
    return problem_set(name)


def _matching(problems: Sequence[Problem], condition: str) -> list[Problem]:
    """The problems with all features of a text such as `experts=64 dtype=fp16`."""
    wanted = {}
    for word in condition.split():
        feature, equals, text = word.partition("=")
        if not feature or not equals or not text:
            raise MisuseError(f"--hold-out {condition!r:.60} is no condition: each word is feature=value, such as "
                              "experts=64; a named set (vgg16), a file of problems or a share (20%) can be named, too")
        if feature in wanted:
            raise MisuseError(f"--hold-out {condition!r:.60} names {feature} twice; give --hold-out twice")
        if not any(feature in dict(problem) for problem in problems):
            names = ", ".join(dict.fromkeys(own for problem in problems for own in dict(problem)))
            raise MisuseError(f"no problem has the feature {feature!r:.40}; there are {names:.200}")
        wanted[feature] = feature_value(feature, text)
    return [problem for problem in problems if wanted.items() <= dict(problem).items()]


def _drawn(problems: Sequence[Problem], share: float, name: str) -> list[Problem]:
    """About a share of the problems: whole groups of near ones, drawn until no further one fits.

    Where none fits it is the smallest group, if that has no more than LARGEST of the problems.
    """
    if not 0 < share < 1:
        raise MisuseError(f"{name} of the problems cannot be held out; give a share between 0 and 1, such as 20%")
    groups = near_groups(problems)
    most = max(1, round(share * len(problems)))
    chosen: list[Problem] = []
    for index in np.random.default_rng(SEED).permutation(len(groups)).tolist():
        if len(chosen) + len(groups[index]) <= most:
            chosen += groups[index]
    smallest = min(groups, key=len, default=[])
    if not chosen and 0 < len(smallest) <= LARGEST * len(problems):
        return smallest
    if not 0 < len(chosen) < len(problems):
        raise MisuseError(f"{name} of {len(problems)} problems cannot be held out: each is near the next (sizes within "
                          f"a factor of {NEAR}), which would give its answer away; name a set, a file or a condition")
    return chosen
