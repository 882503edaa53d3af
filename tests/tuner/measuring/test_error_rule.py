"""The rule of errors: right kernels pass, and no planted error passes because another element is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import ProblemError
from seqtune.kernels.launches.contents import all_contents
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.tuner.backends.backend import OutputCheck
from seqtune.tuner.measuring.expected_outputs import ExpectedOutputs
from seqtune.tuner.measuring.sensitivity import Sensitivity, moved

Array = NDArray[Any]
Function = Callable[..., Array]


def sums(x: Array, axis: int = -1) -> Array:
    """Sums in the order of the terms, in the type of x."""
    return np.asarray(np.take(np.cumsum(x, axis=axis, dtype=x.dtype), -1, axis=axis))


class Case:
    """A problem with one output: `reference` computes in float64, `kernel` as a right kernel does."""

    def __init__(self, reference: Function, kernel: Function | None = None, known: str = "reference",
                 contents: dict[str, Array] | None = None, dtype: str = "fp32", tolerance: float | None = None,
                 compares_sum: bool = False, **shapes: tuple[int, ...]) -> None:
        inputs = {name: Tensor(shape, values="normal") for name, shape in shapes.items()}
        self.arrays = {**all_contents(Tensors(inputs, {}), 0), **(contents or {})}
        inputs |= {name: Tensor(array.shape) for name, array in (contents or {}).items()}

        def compute(arrays: Any) -> dict[str, Array]:
            wide = known != "default"
            return {"y": np.asarray((reference if wide else self.kernel)(**{
                name: array.astype(np.float64) if wide else array for name, array in arrays.items()}))}

        self.kernel = kernel or reference
        self.expected = compute(self.arrays)["y"]
        output = {"y": Tensor(self.expected.shape, dtype, None, tolerance, compares_sum)}
        self.type = np.dtype({"fp32": "f4", "fp16": "f2"}.get(dtype, dtype))
        self.outputs = ExpectedOutputs.of({"y": self.expected}, self.arrays, Tensors(inputs, output),
                                          None if known == "file" else compute)

    def right(self) -> Array:
        """The output of a right kernel."""
        return self.kernel(**self.arrays).astype(self.type)

    def check(self, output: Array) -> OutputCheck:
        """The check of an output."""
        return self.outputs.compare("y", output)

    def finds(self, wrong: Callable[[Array], object]) -> bool:
        """Whether a change of a right output, in place, is found."""
        output = self.right().copy()
        wrong(output)
        return bool(self.check(output).message)


def masked(x: Array, share: float, value: float, fill: Array) -> Array:
    """The array with a share of its elements replaced, in rows: the first ones of every row."""
    result = fill.copy()
    result[..., :int(share * result.shape[-1])] = value
    return result


def rows(x: Array) -> Array:
    return sums(x)


def softmax(x: Array) -> Array:
    powers = np.exp(8 * (x - x.max(-1, keepdims=True)))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def layer_norm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + x.dtype.type(1e-5)))


def with_mask(share: float, value: float) -> Function:
    return lambda a, b: masked(a, share, value, a.dtype.type(0.125) * (a @ b))


def signs(n: int, like: Array) -> Array:
    return (1 - 2 * (np.arange(n) % 2)).astype(like.dtype)


def evens_then_odds(x: Array) -> Array:
    return sums(x[:, ::2]) - sums(x[:, 1::2])


PAIRED = np.repeat(np.random.default_rng(1).standard_normal((64, 500)).astype(np.float32), 2, axis=1)
VARIED = np.random.default_rng(4).standard_normal((64, 2500)).astype(np.float32) + np.float32(3)
HUGE_ROWS = np.random.default_rng(2).standard_normal((256, 300)).astype(np.float32)
HUGE_ROWS[::100] *= 1e9
CASES: dict[str, Callable[[str], Case]] = {
    "rows": lambda known: Case(rows, known=known, x=(256, 1000)),
    "long rows": lambda known: Case(rows, known=known, x=(16, 200_000)),
    "product": lambda known: Case(lambda a, b: a @ b, known=known, a=(96, 300), b=(300, 128)),
    "relu": lambda known: Case(lambda x: np.maximum(rows(x) - 8, 0), known=known, x=(1024, 300)),
    "masked by -1e9": lambda known: Case(with_mask(0.6, -1e9), known=known, a=(96, 64), b=(64, 96)),
    "masked by 1e30": lambda known: Case(with_mask(0.9, 1e30), known=known, a=(96, 64), b=(64, 96)),
    "masked by -1e4": lambda known: Case(with_mask(0.6, -1e4), known=known, a=(96, 64), b=(64, 96)),
    "softmax": lambda known: Case(softmax, known=known, x=(64, 512)),
    "masked softmax": lambda known: Case(lambda x: softmax(masked(x, 0.5, -1e9, x)), known=known, x=(64, 512)),
    "layer norm": lambda known: Case(layer_norm, known=known, x=(64, 512)),
    "variances": lambda known: Case(lambda x: ((x - x.mean(-1, keepdims=True))**2).mean(-1), known=known,
                                    contents={"x": VARIED}),
    "small": lambda known: Case(lambda x: x * x.dtype.type(1e-12), known=known, x=(64, 64)),
    "huge rows": lambda known: Case(rows, known=known, contents={"x": HUGE_ROWS}),
    "alternating": lambda known: Case(lambda x: sums(x * signs(1000, x)), evens_then_odds, known, x=(64, 1000)),
    "scalar": lambda known: Case(lambda x: sums(x).reshape(1), known=known, x=(10_000,)),
}
CANCELLING: dict[str, Callable[[str], Case]] = {
    "pairs": lambda known: Case(lambda x: sums(x * signs(1000, x)), evens_then_odds, known, contents={"x": PAIRED}),
    "differences from the mean": lambda known: Case(lambda x: sums(x - x.mean(-1, keepdims=True)), known=known,
                                                    x=(64, 1000)),
    "some of the sums": lambda known: Case(
        lambda x: np.concatenate([rows(x[:40]), rows(x[40:] - x[40:].mean(-1, keepdims=True))]), known=known,
        x=(64, 1000)),
    "some below others that are masked": lambda known: Case(
        lambda x: np.concatenate([masked(x, 1.0, -1e9, x[:90, 0]), rows(x[90:120]),
                                  rows(x[120:] - x[120:].mean(-1, keepdims=True))]), known=known, x=(150, 1000)),
}
KNOWN = "reference", "default", "file"


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("name", CASES)
def test_a_right_kernel_passes_and_wrong_ones_do_not(name: str, known: str) -> None:
    case = CASES[name](known)
    assert not case.check(case.right()).message
    flat = case.expected.ravel()
    size = np.where(np.abs(flat) < (1e3 if name != "huge rows" else 1e12), np.abs(flat), 0)
    own = np.flatnonzero(size > 1e-6 * size.max())
    typical = own[np.argsort(np.abs(flat[own]))[len(own) // 2]]

    def one_element(y: Array) -> None:
        y.ravel()[typical] *= 1.01

    def factor(y: Array) -> None:
        y.ravel()[own] *= 800

    assert case.finds(one_element)
    assert case.finds(factor)
    if case.expected.size > 1:
        assert case.finds(lambda y: np.copyto(y, np.roll(y, 1, axis=0)))
        assert case.finds(lambda y: np.copyto(y, np.roll(y, 1, axis=-1)))
        assert case.finds(lambda y: np.copyto(y, np.flip(y, axis=0)))


@pytest.mark.parametrize("known", ["reference", "default"])
@pytest.mark.parametrize("name", CANCELLING)
def test_sums_that_cancel_may_have_the_rounding_of_their_terms(name: str, known: str) -> None:
    case = CANCELLING[name](known)
    right = case.right()
    assert not case.check(right).message
    assert case.finds(lambda y: np.copyto(y, np.where(np.abs(case.expected) < 1e-2, 0.1, y)))  # a term of some hundred


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("known", ["reference", "default"])
def test_no_order_of_a_sum_s_terms_is_refused(known: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows_, terms = int(generator.integers(1, 200)), int(generator.integers(2, 3000))
    shape = rows_, terms
    contents: tuple[Array, ...] = (
        generator.standard_normal(shape, np.float32), generator.random(shape, np.float32),
        np.float32(1.5) + np.float32(0.01) * generator.standard_normal(shape, np.float32))
    for x in contents:
        plain = Case(rows, known=known, contents={"x": x})
        alternating = Case(lambda x: sums(x * signs(x.shape[1], x)), known=known, contents={"x": x})
        zero = Case(lambda x: sums(x - x.mean(-1, keepdims=True)), known=known, contents={"x": x})
        assert not plain.check(np.array(sums(x[:, ::-1]))).message
        assert not alternating.check(evens_then_odds(x)).message
        assert not zero.check((x - x.mean(-1, keepdims=True)).sum(-1)).message


@pytest.mark.parametrize("name", ["masked by -1e9", "masked by 1e30", "masked by -1e4"])
@pytest.mark.parametrize("known", KNOWN)
def test_masked_positions_are_compared_too(name: str, known: str) -> None:
    case = CASES[name](known)
    assert case.finds(lambda y: np.copyto(y, np.where(np.abs(y) > 1e3, 0, y)))
    assert case.finds(lambda y: y.__setitem__((5, 5), 0.5))


def test_zeros_beside_constants_are_no_place_to_hide() -> None:
    for known in KNOWN:
        case = Case(lambda x: np.where(x > 0, x * 0, x * 0 - 10000), known=known, x=(64, 64))
        assert not case.check(case.right()).message
        assert case.finds(lambda y: np.copyto(y, np.where(y == 0, 0.01, y)))


def test_an_input_that_crosses_a_threshold_when_it_moves_widens_nothing() -> None:
    def compact(x: Array) -> Array:
        kept = x[x > 0.5]
        return np.concatenate([kept, np.zeros(len(x) - len(kept), x.dtype)])

    x = np.random.default_rng(3).standard_normal(20_000).astype(np.float32)
    x[::100] = 0.5001  # one step is larger
    case = Case(compact, contents={"x": x})
    assert not case.check(case.right()).message
    assert case.finds(lambda y: y.__setitem__(7, y[7] * 1.001))
    assert case.finds(lambda y: np.copyto(y, np.roll(y, 1)))


FUNCTIONS: tuple[Function, ...] = (
    rows, softmax, lambda x: np.maximum(rows(x), 0), lambda x: masked(x, 0.6, -1e4, x))


def test_numbers_of_16_bits_pass_with_their_rounding() -> None:
    for known in KNOWN:
        for function in FUNCTIONS:
            case = Case(function, known=known, dtype="fp16", x=(64, 200))
            assert not case.check(case.right()).message
            assert case.finds(lambda y: np.copyto(y, np.roll(y, 1, axis=0)))
            assert case.finds(lambda y: np.copyto(y, np.where(np.isinf(y), y, y * np.float16(1.1))))


def test_a_tolerance_of_one_s_own_is_the_largest_relative_error() -> None:
    case = Case(rows, tolerance=1e-2, contents={"x": np.full((64, 8), 0.75, np.float32)})
    assert not case.finds(lambda y: np.multiply(y, 1.009, out=y))
    assert case.finds(lambda y: np.multiply(y, 1.02, out=y))
    case = Case(lambda x: x / 3, tolerance=0.0, x=(8, 8))
    assert not case.check((case.arrays["x"].astype(np.float64) / 3).astype(np.float32)).message  # rounded once
    assert case.finds(lambda y: y.__setitem__((1, 1), np.nextafter(y[1, 1], np.float32(9))))


def test_infinities_and_nan_are_right_where_they_are_expected_and_nowhere_else() -> None:
    def special(x: Array) -> Array:
        y = x.copy()
        y[np.arange(64), np.arange(64)] = np.nan
        y[0, 1:], y[1, 2:] = np.inf, -np.inf
        return y

    for known in ("reference", "file"):
        case = Case(special, known=known, x=(64, 64))
        assert not case.check(case.right()).message
        wrongs: tuple[tuple[tuple[int, int], float], ...] = (
            ((3, 3), 1.0), ((5, 4), np.nan), ((5, 4), np.inf), ((0, 5), -np.inf), ((0, 5), 3e38), ((1, 5), np.nan),
            ((0, 0), np.inf))
        for index, value in wrongs:
            output = case.right()
            output[index] = value
            assert case.check(output).message, (index, value)
        assert "never written" in case.check(poison_at(case.right(), (7, 7))).message
        assert case.finds(lambda y: y.__setitem__((5, 4), 800 * y[5, 4]))


def poison_at(output: Array, index: tuple[int, ...]) -> Array:
    """The output with the bits of an element that nothing wrote."""
    output = output.copy()
    output.view(np.uint32)[index] = 0xFFFFFFFF
    return output


def test_a_number_beyond_the_type_is_its_infinity() -> None:
    case = Case(lambda x: x * 1e39, known="file", contents={"x": np.array([1.0, -2.0, 0.001], np.float32)})
    assert not case.check(np.array([np.inf, -np.inf, 1e36], np.float32)).message
    assert case.check(np.array([np.inf, np.inf, 1e36], np.float32)).message


def test_an_output_that_is_nan_everywhere_is_the_reference_s_mistake() -> None:
    with pytest.raises(ProblemError, match=r"y\[0\] is nan \(3 of 3 .*the reference or its inputs are wrong"):
        Case(lambda x: x * np.nan, known="file", x=(3,))


def test_whole_numbers_are_exact_unless_a_tolerance_is_declared() -> None:
    x = np.arange(12, dtype=np.float32)
    exact = Case(lambda x: x, contents={"x": x}, dtype="int32")
    assert not exact.check(exact.right()).message
    assert exact.finds(lambda y: y.__setitem__(3, 4))
    wide = Case(lambda x: x, contents={"x": x}, dtype="int32", tolerance=0.1)  # 1.1, a tenth of the largest
    assert not wide.finds(lambda y: y.__setitem__(3, 4))
    assert wide.finds(lambda y: y.__setitem__(3, 5))


def test_sums_are_compared_by_the_size_of_their_elements() -> None:
    case = Case(lambda x: x, known="file", compares_sum=True, x=(100, 100))
    shuffled = np.random.default_rng(0).permutation(case.right().ravel()).reshape(100, 100)
    assert not case.check(shuffled).message
    assert case.finds(lambda y: y.__setitem__((3, 3), y[3, 3] + 1))
    infinite = Case(lambda x: np.where(x > 2, np.inf, x), known="file", compares_sum=True, x=(100, 100))
    assert not infinite.check(infinite.right()[::-1]).message
    assert "inf, expected" in infinite.check(np.where(np.isinf(infinite.right()), 0, infinite.right())).message


def test_one_wrong_element_of_a_million_is_named() -> None:
    case = Case(lambda a, b: a @ b, a=(1000, 20), b=(20, 1000))
    wrong = case.right()
    assert not case.check(wrong).message
    wrong[123, 456] += 0.01
    assert "wrong result in y[123, 456]" in case.check(wrong).message


def test_the_moves_tell_the_size_of_a_sum_that_cancels() -> None:
    x = np.ones(10_000) * 0.7
    weights = signs(10_000, x)
    moves = [np.array([(array["x"] * weights).sum()]) for step in (2.0**-12, -(2.0**-12))
             if (array := moved({"x": x}, Tensors({"x": Tensor(x.shape, "fp64")}, {}), step))]
    size = Sensitivity.of(np.zeros(1), moves[0], moves[1], 2.0**-12).sizes[0]
    assert 0.01 * 70 < size < 3 * 70  # the root of the sum of squares, times a normal number
