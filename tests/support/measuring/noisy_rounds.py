"""Noisy rounds: simulated samples of kernels whose true times are known, as a verification takes them.

A verification compares candidates with a default in batches of rounds. Each batch has newly built kernels: a build is
faster or slower by luck as long as it lives. A shared host slows everything down in stretches of 0.5 to 20 s and
disturbs single samples, more of them in some builds than in others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.tuner.measuring.verification import RULE

Array = NDArray[np.float64]

BATCHES = RULE.batches
ROUNDS = 8  # of a batch: 48 rounds in all fit into a second for kernels of a millisecond


@dataclass(frozen=True)
class Noise:
    """A kind of noise; `jitter` and `luck` are standard deviations of the logarithm of the seconds."""

    name: str
    jitter: float = 0.01  # of each sample
    luck: float = 0.01  # of each build
    disturbed: float = 0.02  # probability that a sample is disturbed
    factor: float = 1.5  # mean factor of a disturbed sample, exponential above 1
    uneven: float = 0.0  # by how much that probability differs between builds, as a factor exp(N(0, uneven))
    lasting: bool = False  # whether that factor is the same in all builds of a name
    stretch: float = 0.0  # share of the time in which the host runs at half the rate
    seconds: float = 1e-3  # of a launch; a sample takes twice as long, because a launch before it warms up


NOISES = (
    Noise("quiet"),
    Noise("luck of 2 % a build", luck=0.02),
    Noise("launches that vary by 20 %", jitter=0.1, disturbed=0.3, factor=1.3, uneven=0.5),
    Noise("shared host", jitter=0.02, disturbed=0.15, factor=2.0, uneven=0.5, stretch=0.3),
    Noise("shared host, 20 ms a launch", jitter=0.02, disturbed=0.3, factor=2.0, uneven=0.5, stretch=0.3,
          seconds=20e-3),
)


def rounds_of(truth: Array, noise: Noise, generator: np.random.Generator) -> Array:
    """Simulated seconds, (name, round)."""
    count, rounds = len(truth), BATCHES * ROUNDS
    luck = np.repeat(np.exp(generator.normal(0, noise.luck, (count, BATCHES))), ROUNDS, axis=1)
    seconds: Array = truth[:, None] * luck * np.exp(generator.normal(0, noise.jitter, (count, rounds)))
    factors = np.exp(generator.normal(0, noise.uneven, (count, BATCHES)))
    often = np.minimum(0.9, noise.disturbed * (factors[:, :1] if noise.lasting else factors))
    often = np.broadcast_to(often, factors.shape)
    disturbed = generator.random((count, rounds)) < np.repeat(often, ROUNDS, axis=1)
    seconds *= np.where(disturbed, 1 + generator.exponential(noise.factor - 1, (count, rounds)), 1.0)
    if noise.stretch:
        order = np.argsort(generator.random((count, rounds)), axis=0)  # the turn of each name in each round
        begin: Array = ((np.arange(rounds) * count + order) * 2.0 * noise.seconds).astype(np.float64)  # of a sample
        begin += 0.05 * (np.arange(rounds) // ROUNDS)  # building anew takes 50 ms
        seconds *= np.where(_slow(begin, noise.stretch, generator), 2.0, 1.0)
    return seconds


def _slow(begin: Array, share: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Whether the host is slow at these times, in stretches of 0.5 to 20 s that cover a share of the time."""
    slow, now, state = np.zeros(begin.shape, bool), -40.0, generator.random() < share
    while now < begin.max():
        length = math.exp(generator.uniform(math.log(0.5), math.log(20))) * (1 if state else (1 - share) / share)
        if state:
            slow |= (begin >= now) & (begin < now + length)
        now, state = now + length, not state
    return slow
