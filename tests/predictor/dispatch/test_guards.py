"""Guards have the verdict of search spaces, for our kernels and a stranger's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter, Setting
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import families, kernel
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.folding import NEVER
from seqtune.predictor.dispatch.guards import Guard
from tests.support.devices import DEVICES, described_gpu
from tests.support.guarded_members import check_guards

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DOMAINS = {"gemm": ("m=1..2048", "n=1..2048", "k=1..2048", "trans_a=no,yes", "dtype=fp32,bf16,int8"),
           "conv2d": ("n=1..4", "c=1..256", "h=1..64", "k=1..256", "r=1..5", "pad=0..2", "stride=1,2", "groups=1..256",
                      "layout=NCHW,NHWC")}
AVX512 = replace(DEVICES["llvm"], extra=(("bf16_dots", 1), ("int8_dots", 1), ("amx_tile", 1), ("amx_bf16", 1)))
SSE = Device("llvm:sse:1", "llvm", "nehalem", "sse", vector_registers=16, l1_bytes=1 << 15, l2_bytes=1 << 18)


@pytest.mark.parametrize("device", [AVX512, SSE, DEVICES["opencl"]], ids=lambda device: device.instruction_set)
@pytest.mark.parametrize("name", DOMAINS)
def test_guards_of_our_kernels_agree_with_their_spaces(name: str, device: Device) -> None:
    check_guards(Domain.parse(operation(name), DOMAINS[name]), families(device.backend, name), device)


@pytest.mark.parametrize("example", ["reduction", "matrix_product", "stencil", "convolution", "vector_add"])
def test_guards_of_strangers_kernels_agree_with_their_spaces(example: str) -> None:
    library = read_library(EXAMPLES / example / "library.toml")
    use(library)
    (work,) = library.operations
    ranges = [f"{each.name}={','.join(map(str, each.choices or each.numbers)) or f'{each.low}..{min(each.high, 2048)}'}"
              for each in operation(work).features if not each.number]
    kernels = [library.kernel(name) for name in library.table]
    check_guards(Domain.parse(operation(work), ranges), kernels, DEVICES["opencl"])


MEMBER: dict[str, Setting] = {"tile": 8, "word": "x", "k": 2}


def toy(**parts: object) -> Kernel:
    return Kernel.of(**{  # type: ignore[arg-type]
        "name": "toy.kernel", "operation": "gemm", "meaning": "", "parameters": (
            Parameter("tile", (1, 8, 1.5)), Parameter("word", ("x", "y")), Parameter("k", (2, 4))),
        "default": {"tile": 8, "word": "x", "k": 2}, "backends": ("llvm",), **parts})


def guard_of(constraint: str, **settings: Setting) -> Guard:
    member = Configuration("toy.kernel", tuple({**MEMBER, **settings}.items()))
    return Guard.of(member, toy(constraints=((constraint, "why"),)), AVX512)


@pytest.mark.parametrize(("constraint", "left"), [
    ("tile <= m", ["m >= 8"]), ("word == 'y' or m % tile == 0", ["m % 8 == 0"]), ("word == 'x' or m % tile == 0", []),
    ("tile * k <= 16 and n > 3", ["n > 3"]), ("vector_floats * threads <= n <= 4 * m", ["n >= 32", "n <= 4 * m"]),
    ("{'x': m, 'y': n}[word] > 5", ["{'x': m, 'y': n}['x'] > 5"]), ("(m if word == 'x' else n) > 5", ["m > 5"]),
    ("not (m < tile)", ["not m < 8"]), ("2 ** k + (-tile) ** 2 <= m", ["m >= 68"]), ("m >= 1", []),
    ("m % 4 == 0 and (m % 4 == 0 or n > 2)", ["m % 4 == 0", "m % 4 == 0 or n > 2"]), ("tile in (4, 8)", []),
    ("tile > m or word == 'y'", ["m < 8"]), ("not (m > 9 or m < 1)", ["not m > 9"]),
    ("(m > n and k == 2) == (word == 'x')", ["(m > n) == True"]), ("(m - n or k == 4) < 5", ["(m - n or False) < 5"]),
    ("tile > 8", [NEVER.text]), ("m < 1 or tile == 1", [NEVER.text]), ("max((tile, 9)) <= m", ["m >= 9"])])
def test_settings_and_facts_of_the_device_are_put_in(constraint: str, left: list[str]) -> None:
    assert [condition.text for condition in guard_of(constraint).conditions] == left


def test_a_parameter_hides_a_feature_in_constraints_but_not_in_what_a_kernel_solves() -> None:
    kernel = toy(solves=(("k >= 16", "why"),), derived=(("twice", "2 * k"), ("double_m", "2 * m")),
                 constraints=(("twice <= n", "why"), ("double_m >= 6", "why")))
    member = Configuration.of("toy.kernel", MEMBER)
    assert [each.text for each in Guard.of(member, kernel, AVX512).conditions] == ["k >= 16", "n >= 4", "2 * m >= 6"]
    for parts in ({"backends": ("cuda",)}, {"derived": (("size", "m * gone"),)}):
        assert Guard.of(member, toy(**parts), AVX512).conditions == (NEVER,)


@pytest.mark.parametrize("settings", [{"tile": 2}, {"tile": 1.0}, {"tile": True}, {"more": 1}], ids=str)
def test_what_is_no_configuration_is_refused(settings: dict[str, Setting]) -> None:
    with pytest.raises(MisuseError, match=r"toy\.kernel"):
        guard_of("m > 0", **settings)


def test_undefined_and_unknown_values_make_a_member_invalid() -> None:
    columns = ProblemColumns.of([Problem.make("gemm", m=m, n=4, k=4) for m in (4, 5, 6)])
    for constraint, verdicts in (("12 % (m - 4) == 0", [False, True, True]),
                                 ("{4: 1, 6: 0}[m] == 1", [True, False, False]),
                                 ("m > 4 and {5: 1, 6: 1}[m] == 1", [False, True, True]),
                                 ("not (12 % (m - 4) == 0)", [False, False, False])):
        assert guard_of(constraint).holds(columns).tolist() == verdicts
    unknown = ProblemColumns.of([Problem.make("gemm", m=None, n=4, k=4)])
    assert not guard_of("m > 0").holds(unknown).any()


def test_a_condition_that_is_too_long_gets_one_line() -> None:
    with pytest.raises(MisuseError, match=r"toy\.kernel tile=8 word=x k=2: a condition cannot be written"):
        Guard.of(Configuration.of("toy.kernel", MEMBER), toy(
            derived=(("big", f"max({', '.join(['m * n'] * 200)})"),), constraints=(("big * big > 9", "why"),)), AVX512)


def test_a_guard_names_nothing_that_its_kernel_derives_of_the_problem() -> None:
    family, device, work = kernel("triton.gemm"), described_gpu("triton", "h200"), operation("gemm")
    default = {**dict(family.default), "matrix_instr_nonkdim": 0, "waves_per_eu": 0, "kpack": 1}
    names = {name for condition in Guard.of(Configuration.of(family.name, default), family, device).conditions
             for name in condition.names}
    assert names <= {*work.by_name, *(name for name, _ in work.derived)}
