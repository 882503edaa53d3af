"""An llvm kernel's answers against the definition; for the tests of kernel families."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.tuner.llvm import LLVMBackend
from seqtune.tuner.reference import make_operands, reference


def errors(backend: LLVMBackend, family: Kernel, problem: Problem, configurations: list[Configuration]) -> list[float]:
    """max|difference| / max|reference| of each; two launches on poisoned buffers agree, nothing else is written."""
    operands = make_operands(problem, seed=3)
    expected = reference(problem, operands)
    found = []
    for configuration in configurations:
        executable = backend.build(problem, family, configuration)
        try:
            executable.load(operands.x, operands.weights, operands.bias)
            executable.poison()
            executable.run()
            first = executable.output()
            executable.run()
            again = executable.output()
            assert executable.overrun() is None, (problem.brief(), configuration.brief())
        finally:
            executable.close()
        assert first.shape == expected.shape
        assert (first == again).all(), (problem.brief(), configuration.brief())
        found.append(float(np.abs(first - expected).max() / max(np.abs(expected).max(), 1e-6)))
    return found
