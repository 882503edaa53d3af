"""Vector math: exp, log, tanh, erf and sigmoid on vectors as LLVM IR, for any number of lanes, without a call of libm.

Relative errors are below 5e-7 for results that are normal numbers. Zeros, denormals, infinities and NaNs give what
the functions' limits are; a result too small for a normal number may be 0.
"""

from __future__ import annotations

from .vectors import Vectors

_LOG2E = 1.4426950408889634
# log(2) in two parts (Cody and Waite): the first has 9 bits, so its product with an exponent is exact.
_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4
_ROUNDING = 1.5 * 2.0 ** 23  # a number this large has no fraction: adding and subtracting it rounds to an integer
# (exp(r) - 1 - r) / r^2 for |r| <= log(2)/2, highest power first: Cephes, expf.c (S. Moshier, 1989).
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
# (log(1 + x) - x + x^2 / 2) / x^3 for sqrt(1/2) <= 1 + x <= sqrt(2): Cephes, logf.c.
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
# erf(x) / x = P(x^2) / Q(x^2) for |x| <= 3.93: a weighted least-squares fit in fp64 (Lawson's iteration on Chebyshev
# points); its largest relative error is 2e-8, and 3.5e-7 when it is computed in fp32.
_ERF_P = (2.0419399788806913e-06, 0.00028478880994953215, 0.0037791081704199314, 0.05278870463371277,
          0.1907733678817749, 1.1283791065216064)
_ERF_Q = (3.80027195205912e-05, 0.0011650753440335393, 0.014996438287198544, 0.11425302177667618,
          0.5024012327194214, 1.0)
_ERF_ONE = 3.92  # erf is 1 in fp32 from here


def _exponent(v: Vectors, x: str) -> tuple[str, str, str]:
    """n = round(x / log(2)) as a number and as an integer, and the remainder x - n log(2)."""
    shifted = v.fma(x, v.constant(_LOG2E), v.constant(_ROUNDING))
    n = v.sub(shifted, v.constant(_ROUNDING))
    rest = v.fma(n, v.constant(-_LOG2_HIGH), x)
    rest = v.fma(n, v.constant(-_LOG2_LOW), rest)
    # The integer stands in the lowest bits of the large number.
    return n, v.integer("sub", v.bits(shifted), v.bits(v.constant(_ROUNDING))), rest


def _power_of_two(v: Vectors, n: str) -> str:
    """2^n for integers from -126 to 127."""
    return v.from_bits(v.integer("shl", v.integer("add", n, v.whole(127)), v.whole(23)))


def _exp_rest(v: Vectors, rest: str) -> str:
    """exp(r) - 1 for the remainder."""
    return v.fma(v.horner(rest, *_EXP), v.mul(rest, rest), rest)


def exp(v: Vectors, x: str) -> str:
    """e^x, also where the result is a denormal number; infinity above 88.73."""
    x = v.at_most(v.at_least(x, v.constant(-104.0)), v.constant(89.0))  # beyond: 0 and infinity
    _, n, rest = _exponent(v, x)
    value = v.add(_exp_rest(v, rest), v.constant(1.0))
    half = v.integer("ashr", n, v.whole(1))  # 2^n in two factors: n is between -150 and 128
    value = v.mul(value, _power_of_two(v, half))
    return v.mul(value, _power_of_two(v, v.integer("sub", n, half)))


def exp_of_negative(v: Vectors, x: str) -> str:
    """e^x for x <= 0 (or NaN), in fewer instructions than `exp`: 0 where the result would be below 2^-126."""
    _, n, rest = _exponent(v, v.at_least(x, v.constant(-87.33654)))
    value = v.mul(v.add(_exp_rest(v, rest), v.constant(1.0)), _power_of_two(v, n))
    return v.select(v.compare("olt", x, v.constant(-87.33654)), v.constant(0.0), value)


def expm1(v: Vectors, x: str) -> str:
    """e^x - 1, precise near 0; infinity above 88.73."""
    bounded = v.at_most(v.at_least(x, v.constant(-17.5)), v.constant(89.0))  # beyond: -1 and infinity
    _, n, rest = _exponent(v, bounded)
    scale = _power_of_two(v, v.integer("sub", n, v.whole(1)))  # n is up to 128, so half of the result comes first
    value = v.fma(_exp_rest(v, rest), scale, v.sub(scale, v.constant(0.5)))
    value = v.add(value, value)
    return v.select(v.compare("olt", v.abs(x), v.constant(2.0 ** -60)), x, value)  # -0 and denormal numbers, too


def log(v: Vectors, x: str) -> str:
    """Natural logarithm: -infinity at 0, NaN below."""
    small = v.compare("olt", x, v.constant(2.0 ** -126))
    scaled = v.select(small, v.mul(x, v.constant(2.0 ** 25)), x)
    bits = v.bits(scaled)
    # Bits of sqrt(1/2) subtracted: the exponent then counts mantissas from sqrt(1/2) to sqrt(2).
    shifted = v.integer("sub", bits, v.whole(0x3F3504F3))
    exponent = v.integer("ashr", shifted, v.whole(23))
    mantissa = v.from_bits(v.integer("sub", bits, v.integer("shl", exponent, v.whole(23))))
    e = v.write.let(f"sitofp {v.integers} {exponent} to {v.kind}")
    e = v.select(small, v.sub(e, v.constant(25.0)), e)
    f = v.sub(mantissa, v.constant(1.0))
    square = v.mul(f, f)
    value = v.mul(v.mul(v.horner(f, *_LOG), f), square)
    value = v.fma(e, v.constant(_LOG2_LOW), value)
    value = v.fma(square, v.constant(-0.5), value)
    value = v.fma(e, v.constant(_LOG2_HIGH), v.add(f, value))
    infinity = v.constant(float("inf"))
    value = v.select(v.compare("oeq", x, infinity), infinity, value)
    value = v.select(v.compare("oeq", x, v.constant(0.0)), v.constant(float("-inf")), value)
    # Negative numbers and NaNs
    return v.select(v.compare("ult", x, v.constant(0.0)), v.constant(float("nan")), value)


def log1p(v: Vectors, x: str) -> str:
    """log(1 + x), precise near 0: log(u) (x / (u - 1)) with u = 1 + x as rounded (Kahan)."""
    u = v.add(x, v.constant(1.0))
    step = v.sub(u, v.constant(1.0))
    value = v.mul(log(v, u), v.div(x, step))
    value = v.select(v.compare("oeq", u, v.constant(1.0)), x, value)
    infinity = v.constant(float("inf"))
    value = v.select(v.compare("oeq", x, infinity), infinity, value)
    return v.select(v.compare("oeq", u, v.constant(0.0)), v.constant(float("-inf")), value)


def sigmoid(v: Vectors, x: str) -> str:
    """1 / (1 + e^-x), from e^-|x|, which never overflows."""
    e = exp_of_negative(v, v.from_bits(v.integer("or", v.bits(x), v.whole(-2 ** 31))))
    above = v.select(v.compare("olt", x, v.constant(0.0)), e, v.constant(1.0))
    return v.div(above, v.add(e, v.constant(1.0)))


def tanh(v: Vectors, x: str) -> str:
    """(e^2|x| - 1) / (e^2|x| + 1) with the sign of x; 1 in fp32 from 9.02."""
    size = v.at_most(v.abs(x), v.constant(9.02))
    _, n, rest = _exponent(v, v.add(size, size))
    scale = _power_of_two(v, n)
    e = v.fma(_exp_rest(v, rest), scale, v.sub(scale, v.constant(1.0)))
    return v.with_sign(v.div(e, v.add(e, v.constant(2.0))), x)


def erf(v: Vectors, x: str) -> str:
    """The error function."""
    size = v.at_most(v.abs(x), v.constant(_ERF_ONE))
    square = v.mul(size, size)
    value = v.div(v.mul(size, v.horner(square, *_ERF_P)), v.horner(square, *_ERF_Q))
    value = v.select(v.compare("oge", size, v.constant(_ERF_ONE)), v.constant(1.0), value)
    return v.with_sign(v.at_most(value, v.constant(1.0)), x)
