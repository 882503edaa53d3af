"""Products: two whole matrices of one operation, 60 shapes x 64 candidates each, every cell measured.

`measure` makes such a matrix on a device of this machine, and writes the data set beside this module. What a dispatch
makes of a part of the cells is then known exactly, without any device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common.progress import say
from seqtune import use_library
from seqtune.api.dispatching.known import known_here
from seqtune.api.dispatching.measuring import LOOK, measuring_on
from seqtune.api.inputs import as_device
from seqtune.data.dataset import Dataset
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.matrix import most_helpful
from seqtune.tuner.measuring.compared_times import LOOK as LOOK_OPTIONS
from seqtune.tuner.measuring.deadline import Deadline

SHAPES, CANDIDATES, SEED = 60, 64, 0
FINALISTS = 8  # fastest candidates of each shape, which are compared again in rounds


@dataclass(frozen=True, slots=True)
class Target:
    """An operation on a device, by the kernels of a library, and the domain of its shapes."""

    name: str
    operation: str
    device: str
    library: str | None  # None: seqtune's own kernels
    domain: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The data set of its matrix."""
        return Path(__file__).with_name(f"{self.name}.parquet")

    def use(self) -> None:
        """Make the kernels of its library known to this process."""
        if self.library is not None:
            use_library(self.library, allow_commands=True)  # an example's reference is a Python function

    def served(self) -> Domain:
        """The domain."""
        return Domain.parse(operation(self.operation), self.domain)

    def shapes(self) -> list[Problem]:
        """The shapes for which kernels are chosen: log-uniform over the domain."""
        return [problem for _, problem in self.served().sample(SHAPES, np.random.default_rng(SEED)).problems()]


PRODUCTS: Mapping[str, Target] = {product.name: product for product in (
    Target("llvm", "gemm", "llvm:1", None, ("m=16..1024", "n=16..1024", "k=16..1024")),
    Target("clblast", "gemm", "opencl:0", "clblast", ("m=16..512", "n=16..512", "k=16..512")))}


def measure(product: Target, folder: Path) -> None:
    """Measure the matrix of a product here, and write its data set. What the folder's journal has is not repeated.

    The candidates are those of a dispatch, of which the CANDIDATES stay that are expected to help most.
    """
    product.use()
    folder.mkdir(exist_ok=True)
    device, shapes = as_device(product.device), product.shapes()
    known = known_here(dict.fromkeys(shapes, 1.0), device, None, lambda task: np.full(len(task), np.nan), say)
    matrix = known.candidates()
    kept = sorted(most_helpful(matrix.slowness(), matrix.weights, CANDIDATES))
    candidates = [matrix.candidates[column] for column in kept]
    with measuring_on(device, folder / f"{product.name}-matrix.sqlite", Deadline()) as measuring:
        for number, task in enumerate((each.task for each in known.tasks), 1):
            looks = measuring.looks(task)
            missing = [each for each in candidates if task.find(each) is not None and each not in looks]
            for candidate, measurement in measuring.measurer.measure(task.problem, missing, LOOK_OPTIONS):
                measuring.store(task, candidate, measurement, LOOK)
            looks = measuring.looks(task)
            measuring.compare(task, sorted(looks, key=lambda each: looks[each].seconds)[:FINALISTS])
            say(f"{number} of {len(shapes)}: {len(looks)} candidates of {task.problem.brief()} are measured")
        Dataset.from_journal(measuring.journal).write(product.path)
