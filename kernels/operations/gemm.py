"""gemm: matrix product C[m,n] = A[m,k] B[k,n]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

from ..expression import Expression
from .draws import choose, jitter
from .feature import ACTIVATION, DTYPE, TOLERANCE, Feature, Value
from .modules import dtype_of, has_bias
from .operation import Operands, Operation, ProblemView, Shape

_ROWS = (1, 1, 2, 4, 8, 10, 16, 32, 49, 64, 100, 128, 196, 197, 256, 384, 512)
_WIDTHS = (32, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1152, 1280, 1536, 2048, 2304,
           3072, 4096)


class Gemm(Operation):
    """Matrix product; A and B may be stored transposed."""

    name = "gemm"
    meaning = "matrix product C[m,n] = A[m,k] B[k,n]"
    example = "gemm m=64 n=256 k=128"
    features = (
        Feature("m", "rows of A and C", required=True),
        Feature("n", "columns of B and C", required=True),
        Feature("k", "columns of A, rows of B", required=True),
        Feature("trans_a", "A is stored as (k, m)", "no", choices=("no", "yes")),
        Feature("trans_b", "B is stored as (n, k)", "no", choices=("no", "yes")),
        DTYPE,
        Feature("bias", "epilogue: add one number per column", "no", choices=("no", "yes")),
        ACTIVATION,
        TOLERANCE,
    )
    derived = (("flop", Expression("2 * m * n * k")),)
    elements = {"A": "m * k", "B": "n * k", "C": "m * n"}  # noqa: RUF012
    words = ("matmul",)
    hints = frozenset(("m",))
    sizes = ("m", "n", "k")
    quantities = ("m", "n", "k")
    tiled_sizes = ("m", "n", "k")
    constant = "weights"
    least_flop, most_flop = 1e6, 1e9

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """Transpositions and element type, without the epilogue."""
        return tuple(problem[name] for name in ("trans_a", "trans_b", "dtype"))

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        """Shapes: x = A (m, k), or (k, m) if trans_a; weights = B (k, n), or (n, k) if trans_b; bias (n,)."""
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        shapes: dict[str, Shape] = {"x": (k, m) if problem["trans_a"] == "yes" else (m, k),
                                    "weights": (n, k) if problem["trans_b"] == "yes" else (k, n)}
        return {**shapes, "bias": (n,)} if problem["bias"] == "yes" else shapes

    def output(self, problem: ProblemView) -> Shape:
        """The shape (m, n) of C."""
        return problem.size("m"), problem.size("n")

    def reference(self, problem: ProblemView, operands: Operands) -> NDArray[np.float64]:
        """The product A @ B, then the epilogue."""
        a = operands["x"].T if problem["trans_a"] == "yes" else operands["x"]
        b = operands["weights"].T if problem["trans_b"] == "yes" else operands["weights"]
        y: NDArray[np.float64] = a.astype(np.float64) @ b.astype(np.float64)
        if "bias" in operands:
            y = y + operands["bias"]
        return np.maximum(y, 0) if problem["activation"] == "relu" else y

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Draw rows and widths that networks use, often jittered, so that divisibility varies as well as magnitude."""
        return {
            "m": jitter(generator, choose(generator, _ROWS), 0.4),
            "n": jitter(generator, choose(generator, _WIDTHS), 0.4, step=1 if generator.random() < 0.25 else 8),
            "k": jitter(generator, choose(generator, _WIDTHS), 0.4, step=1 if generator.random() < 0.25 else 8),
            "trans_a": "yes" if generator.random() < 0.06 else "no",
            "trans_b": "yes" if generator.random() < 0.4 else "no",
        }

    def is_module(self, module: Any) -> bool:
        """Whether the module is a torch.nn.Linear."""
        return hasattr(module, "in_features")

    def features_of_module(self, module: Any, input_shape: Shape) -> dict[str, Value]:
        """The features for an input of (..., in_features); the weights are (n, k)."""
        if not hasattr(module, "in_features") or not hasattr(module, "out_features"):
            raise ProblemError(f"a {type(module).__name__} is not a Linear")
        if not input_shape or input_shape[-1] != module.in_features:
            raise ProblemError(f"an input of shape {input_shape} does not end in {module.in_features}")
        return {**layer_features(input_shape, int(module.out_features), int(module.in_features)),
                "dtype": dtype_of(module), "bias": has_bias(module)}


def layer_features(input_shape: Shape, n: int, k: int) -> dict[str, Value]:
    """The features of PyTorch's linear layer: all axes of the input but the last are rows, the weights are (n, k)."""
    return {"m": math.prod(input_shape[:-1]), "n": n, "k": k, "trans_b": "yes"}


OPERATION = Gemm()
