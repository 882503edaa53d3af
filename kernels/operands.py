"""Operands: the shapes of what a problem reads and writes."""

from __future__ import annotations

from seqtune.errors import ProblemError

from .problem import Problem


def operand_shapes(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Shapes of x, weights, bias and y."""
    if problem.type == "gemm":
        m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
        return ((k, m) if problem["trans_a"] == "yes" else (m, k),
                (n, k) if problem["trans_b"] == "yes" else (k, n), (n,), (m, n))
    if problem.type == "conv2d":
        n, c, h, w, k = (problem.size(name) for name in ("n", "c", "h", "w", "k"))
        out_h, out_w = problem.size("out_h"), problem.size("out_w")
        filters = (k, problem.size("c_per_group"), problem.size("r"), problem.size("s"))
        if problem["layout"] == "NHWC":
            return (n, h, w, c), filters, (k,), (n, out_h, out_w, k)
        return (n, c, h, w), filters, (k,), (n, k, out_h, out_w)
    raise ProblemError(f"{problem.type} has no reference to check against")
