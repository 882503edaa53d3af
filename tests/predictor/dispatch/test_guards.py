"""Guards have the verdict of search spaces, for our kernels, CLBlast's and a stranger's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.integrations.clblast.kernels import xgemm, xgemm_direct
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.membership import Membership
from seqtune.kernels.operations.feature import Feature
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import families, kernel
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.guards import NEVER, Guard
from tests.support.devices import DEVICES, described_gpu
from tests.support.guarded_members import configurations, space_verdicts

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DOMAINS = {"gemm": ("m=1..2048", "n=1..2048", "k=1..2048", "trans_a=no,yes", "dtype=fp32,bf16,int8"),
           "conv2d": ("n=1..4", "c=1..256", "h=1..64", "k=1..256", "r=1..5", "pad=0..2", "stride=1,2", "groups=1..256",
                      "layout=NCHW,NHWC")}
AVX512 = replace(DEVICES["llvm"], extra=(("bf16_dots", 1), ("int8_dots", 1), ("amx_tile", 1), ("amx_bf16", 1)))
SSE = Device("llvm:sse:1", "llvm", "nehalem", "sse", vector_registers=16, l1_bytes=1 << 15, l2_bytes=1 << 18)


def check(domain: Domain, kernels: Sequence[Kernel], device: Device, members: int = 8) -> int:
    """Compare guards with spaces and with `Membership`; the number of valid pairs of member and shape."""
    generator = np.random.default_rng(4)
    columns = domain.sample(3000, generator)
    few = columns.take(np.arange(25))
    problems = [problem for _, problem in columns.take(np.arange(300)).problems()]
    corners = list(domain.corners())
    corners = [corners[index] for index in generator.permutation(len(corners))[:200].tolist()]
    pairs = 0
    by_name = {family.name: family for family in kernels}
    for member in configurations(kernels, device, problems, members, generator):
        family = by_name[member.kernel]
        guard = Guard.of(member, family, device)
        assert guard.holds(few).tolist() == space_verdicts(member, family, device, few).tolist()
        for shapes in (columns, ProblemColumns.of(corners)) if corners else (columns,):
            settings = {name: np.full(len(shapes), value) for name, value in member.settings}
            reasons = Membership(family, shapes, device, settings).reasons
            holds = guard.holds(shapes)
            assert holds.tolist() == [reason is None for reason in reasons], (member, guard)
            within = guard.within(domain)
            assert (within.holds(shapes) == holds)[domain.contains(shapes)].all(), (member, guard, within)
            assert not guard.is_proved(domain) or holds.all()
            pairs += int(holds.sum())
    return pairs


@pytest.mark.parametrize("device", [AVX512, SSE, DEVICES["opencl"]], ids=lambda device: device.instruction_set)
@pytest.mark.parametrize("name", DOMAINS)
def test_guards_of_our_kernels_agree_with_their_spaces(name: str, device: Device) -> None:
    assert check(Domain.parse(operation(name), DOMAINS[name]), families(device.backend, name), device) > 0


def test_guards_of_clblast_agree_with_its_spaces() -> None:
    domain = Domain.parse(operation("gemm"), ["m=1..4096", "n=1..4096", "k=1..4096", "trans_a=no,yes"])
    assert check(domain, [xgemm.KERNEL, xgemm_direct.KERNEL], DEVICES["opencl"], members=30) > 0


@pytest.mark.parametrize(("example", "ranges"), [
    ("reduction", ("rows=1..4096", "columns=1..4096")),
    ("matrix_product", ("m=1..2048", "n=1..2048", "k=1..2048")),
    ("stencil", ()), ("convolution", ()), ("vector_add", ())])
def test_guards_of_strangers_kernels_agree_with_their_spaces(example: str, ranges: tuple[str, ...]) -> None:
    library = read_library(EXAMPLES / example / "library.toml")
    use(library)
    (work,) = library.operations
    texts = ranges or [f"{feature.name}={_values(feature)}" for feature in operation(work).features
                       if not feature.number]
    kernels = [library.kernel(name) for name in library.table]
    assert check(Domain.parse(operation(work), texts), kernels, DEVICES["opencl"]) > 0


def _values(feature: Feature) -> str:
    return ",".join(map(str, feature.choices or feature.numbers)) or f"{feature.low}..{min(feature.high, 500)}"


def toy(**parts: object) -> Kernel:
    return Kernel.of(**{  # type: ignore[arg-type]
        "name": "toy.kernel", "operation": "gemm", "meaning": "", "parameters": (
            Parameter("tile", (1, 8, 1.5)), Parameter("word", ("x", "y")), Parameter("k", (2, 4))),
        "default": {"tile": 8, "word": "x", "k": 2}, "backends": ("llvm",), **parts})


def member(tile: object = 8, word: str = "x", k: int = 2) -> Configuration:
    return Configuration("toy.kernel", (("tile", tile), ("word", word), ("k", k)))  # type: ignore[arg-type]


def texts(kernel: Kernel, configuration: Configuration) -> list[str]:
    return [condition.text for condition in Guard.of(configuration, kernel, AVX512).conditions]


@pytest.mark.parametrize(("constraint", "left"), [
    ("tile <= m", ["m >= 8"]), ("word == 'y' or m % tile == 0", ["m % 8 == 0"]), ("word == 'x' or m % tile == 0", []),
    ("tile * k <= 16 and n > 3", ["n > 3"]), ("vector_floats * threads <= n <= 4 * m", ["n >= 32", "n <= 4 * m"]),
    ("m % k == 0", ["m % 2 == 0"]), ("{'x': m, 'y': n}[word] > 5", ["{'x': m, 'y': n}['x'] > 5"]),
    ("(m if word == 'x' else n) > 5", ["m > 5"]), ("m // 1 * 1 >= -tile + 10", ["m >= 2"]), ("not (m < tile)", [
        "not m < 8"]), ("min(m, tile) > 3", ["min(m, 8) > 3"]), ("max((tile, 9)) <= m", ["m >= 9"]),
    ("2 ** k + (-tile) ** 2 <= m", ["m >= 68"]), ("m / tile >= 2.5", ["m / 8 >= 2.5"]), ("m >= 1", []),
    ("m % 4 == 0 and (m % 4 == 0 or n > 2)", ["m % 4 == 0", "m % 4 == 0 or n > 2"]), ("tile in (4, 8)", [])])
def test_conditions_are_folded(constraint: str, left: list[str]) -> None:
    assert texts(toy(constraints=((constraint, "why"),)), member()) == left


def test_a_parameter_hides_a_feature_in_constraints_but_not_in_what_a_kernel_solves() -> None:
    kernel = toy(solves=(("k >= 16", "why"),), derived=(("twice", "2 * k"), ("double_m", "2 * m")),
                 constraints=(("twice <= n", "why"), ("double_m >= 6", "why")))
    assert texts(kernel, member()) == ["k >= 16", "n >= 4", "2 * m >= 6"]


@pytest.mark.parametrize(("parts", "reason"), [
    ({"constraints": (("tile > 8", "too small"),)}, "too small"), ({"backends": ("cuda",)}, "does not run on llvm"),
    ({"solves": (("nothing > 1", "why"),)}, "needs to know nothing"),
    ({"derived": (("size", "m * gone"),)}, "needs to know gone"),
    ({"solves": (("instruction_set == 'sse'", "old"),)}, "old"), ({"constraints": (("m < 1", "never"),)}, "never")])
def test_a_member_that_is_valid_nowhere_has_the_reason(parts: dict[str, object], reason: str) -> None:
    guard = Guard.of(member(), toy(**parts), AVX512)
    assert guard.conditions == (NEVER,)
    assert reason in guard.reason
    assert not guard.holds(ProblemColumns.of([Problem.make("gemm", m=1, n=1, k=1)])).any()


@pytest.mark.parametrize(("configuration", "reason"), [
    (member(tile=2), "tile=2 is not one of its values"), (member(tile=1.0), "tile=1.0"),
    (member(tile=True), "tile=true"),
    (Configuration("toy.kernel", (("tile", 8), ("word", "x"))), "'k' has 0"),
    (Configuration("toy.kernel", (*member().settings, ("more", 1))), "'more' has 1"),
    (Configuration("toy.kernel", (*member().settings, ("k", 2))), "'k' has 2"),
    (Configuration("other.kernel", ()), "no configuration of toy.kernel")])
def test_what_is_no_configuration_is_refused(configuration: Configuration, reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        Guard.of(configuration, toy(), AVX512)


def test_undefined_and_unknown_values_make_a_member_invalid() -> None:
    columns = ProblemColumns.of([Problem.make("gemm", m=m, n=4, k=4) for m in (4, 5, 6)])
    for constraint, verdicts in (("12 % (m - 4) == 0", [False, True, True]),
                                 ("{4: 1, 6: 0}[m] == 1", [True, False, False]),
                                 ("m > 4 and {5: 1, 6: 1}[m] == 1", [False, True, True]),
                                 ("not (12 % (m - 4) == 0)", [False, False, False])):
        assert Guard.of(member(), toy(constraints=((constraint, "why"),)), AVX512).holds(columns).tolist() == verdicts
    unknown = ProblemColumns.of([Problem.make("gemm", m=None, n=4, k=4)])
    assert not Guard.of(member(), toy(constraints=(("m > 0", "why"),)), AVX512).holds(unknown).any()
    assert Guard.of(member(), toy(), AVX512).holds(unknown).all()


def test_a_condition_that_is_too_long_gets_one_line() -> None:
    kernel = toy(derived=(("big", f"max({', '.join(['m * n'] * 200)})"),), constraints=(("big * big > 9", "why"),))
    with pytest.raises(MisuseError, match=r"toy\.kernel tile=8 word=x k=2: a condition cannot be written"):
        Guard.of(member(), kernel, AVX512)


def test_a_guard_names_nothing_that_its_kernel_derives_of_the_problem() -> None:
    family, device = kernel("triton.gemm"), described_gpu("triton", "h200")
    default = {**dict(family.default), "matrix_instr_nonkdim": 0, "waves_per_eu": 0, "kpack": 1}
    names = {name for condition in Guard.of(Configuration.of(family.name, default), family, device).conditions
             for name in condition.names}
    work = operation("gemm")
    assert names <= {*work.by_name, *(name for name, _ in work.derived)}
