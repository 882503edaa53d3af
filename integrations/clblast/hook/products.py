"""Matrix products by CLBlast, with the parameters that are predicted for their sizes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import MisuseError, SeqtuneError

from ..kernels.library import LIBRARY
from .choices import choice, product

if TYPE_CHECKING:
    from seqtune.kernels.kernel import Configuration

    from ..backend.calls import CLBlastCalls, ParameterSets


def gemm(queue: Any, a: Any, b: Any, c: Any = None, *, trans_a: bool = False, trans_b: bool = False,
         alpha: float = 1.0, beta: float = 0.0, sizes: tuple[int, int, int] | None = None,
         checkpoint: str | Path = str(LIBRARY.checkpoint)) -> Any:
    """Enqueue C = alpha A B + beta C in fp32 with the parameters predicted for these sizes; returns C.

    `a`, `b` and `c` are pyopencl arrays of float32, stored by rows: A is (m, k), or (k, m) with `trans_a`; B is (k, n),
    or (n, k) with `trans_b`; C is (m, n) and is made if it is None. They may be buffers with `sizes` (m, n, k); then
    `c` must be given. The call returns when the product is enqueued. The first call of a size builds its program.
    CLBlast's parameters are set for the whole process. Raises MisuseError for shapes that do not fit, SeqtuneError if
    CLBlast refuses, UnavailableError if it is not installed.
    """
    arrays = sizes is None
    m, n, k = _sizes(a, b, trans_a, trans_b) if sizes is None else sizes
    if c is None:
        if not arrays:
            raise MisuseError("name the buffer `c` of the result, or give pyopencl arrays")
        import pyopencl.array

        c = pyopencl.array.empty(queue, (m, n), "float32")
    elif arrays:
        _check(c, "c")
        if c.shape != (m, n):
            raise MisuseError(f"c has the shape {c.shape}, the product {(m, n)}")
    buffers, offsets = zip(*(_memory(array, arrays) for array in (a, b, c)), strict=True)
    calls = _calls(queue)
    problem = product(m, n, k, trans_a, trans_b)
    calls.select(_settings(choice(queue, problem, checkpoint)))
    from ..backend.shared_library import CLBlastError

    try:
        calls.call((trans_a, trans_b), (m, n, k), (alpha, beta), buffers, offsets)
    except CLBlastError as error:
        raise SeqtuneError(f"{problem.brief()}: {error}; seqtune.clblast.tune measures other parameters") from None
    return c


def defaults(queue: Any) -> ParameterSets:
    """CLBlast's parameters on the queue's device, by its kernel: those of its database, before any call of `gemm`."""
    return _calls(queue).defaults()


@lru_cache(maxsize=64)
def _calls(queue: Any) -> CLBlastCalls:
    from ..backend.calls import CLBlastCalls

    return CLBlastCalls(queue)


@lru_cache(maxsize=4096)
def _settings(configuration: Configuration) -> ParameterSets:
    from ..backend.calls import parameter_sets

    return parameter_sets(configuration)


def _sizes(a: Any, b: Any, trans_a: bool, trans_b: bool) -> tuple[int, int, int]:
    """The sizes (m, n, k) of a product of two arrays. Raises MisuseError if they do not fit each other."""
    _check(a, "a")
    _check(b, "b")
    (m, k), (inner, n) = a.shape[::-1 if trans_a else 1], b.shape[::-1 if trans_b else 1]
    if k != inner:
        raise MisuseError(f"A has {k} columns and B {inner} rows; check the shapes {a.shape} and {b.shape}")
    return int(m), int(n), int(k)


def _check(array: Any, name: str) -> None:
    if getattr(array, "ndim", 0) != 2 or str(getattr(array, "dtype", "")) != "float32":
        raise MisuseError(f"{name} must be a pyopencl array of float32 with two axes, or a buffer with `sizes`")
    if not array.flags.c_contiguous:
        raise MisuseError(f"{name} must be stored by rows without gaps; copy it first")


def _memory(array: Any, is_array: bool) -> tuple[int, int]:
    """The address of an array's buffer and its offset there, in floats."""
    return (int(array.base_data.int_ptr), int(array.offset) // 4) if is_array else (int(array.int_ptr), 0)
