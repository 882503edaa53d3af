"""Expected outputs that cannot be computed: the error names the reference or the kernel, and the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.errors import KernelError, MisuseError, ProblemError, SeqtuneError, SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.reference_results import reference_results
from seqtune.kernels.operations.tensor import Tensor
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write

LIBRARY = """name = "plain"
[operations.double]
features = {n = "numbers"}
inputs = {x = "n, n"}
outputs = {y = "n, n"}
reference = "reference:run"
[kernels.k]
parameters = {width = [1, 2]}
[kernels.k.opencl]
source = "k.cl"
entry = "k"
arguments = ["x", "y"]
global = ["n * n"]
"""
SOURCE = ("__kernel void k(__global const float *x, __global float *y) {"
          "y[get_global_id(0)] = BODY(x[get_global_id(0)]);}")


def measure(folder: Path, text: str = LIBRARY, body: str = "2 *", reference: str = "", problem: str = "double n=4",
            patience: float = 60.0) -> None:
    """Measure one configuration on the first OpenCL device."""
    skip_without_device("opencl:0")
    endless = "({volatile int go = 1; while (width == 1 && go); 2;}) *"
    (folder / "k.cl").write_text(SOURCE.replace("BODY", body).replace("ENDLESS", endless))
    (folder / "reference.py").write_text(f"import os, time\ndef run(x):\n    {reference or 'return 2 * x'}\n")
    seqtune.use_library(write(folder, text), allow_commands=True)
    with Runner(opencl.devices()[0]) as runner:
        list(runner.measure(parse_problem(problem), [Configuration("plain.k", (("width", 2),))],
                            Options(samples=1, patience=patience)))


@pytest.mark.device
@pytest.mark.parametrize(("reference", "message", "patience"), [
    ("os._exit(3)", r"reference:run of double ended its process \(the worker died \(exit code 3\)", 60.0),
    ("time.sleep(60)", "reference:run of double did not end within 2 s", 2.0),
    ("raise KeyboardInterrupt", "reference:run of double failed: KeyboardInterrupt", 60.0)])
def test_a_reference_that_hangs_or_ends_its_process_is_named(
        tmp_path: Path, reference: str, message: str, patience: float) -> None:
    with pytest.raises(SeqtuneError, match=message) as refusal:
        measure(tmp_path, reference=reference, patience=patience)
    assert "too large" not in str(refusal.value)


@pytest.mark.device
def test_a_reference_that_raises_is_a_mistake_of_its_library(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MisuseError, match="ZeroDivisionError"):
        measure(tmp_path, reference="return x / (1 // 0)")
    assert main(["tune", "double", "n=4", "--device", "opencl:0", "--library", str(tmp_path / "library.toml"),
                 "--trials", "1", "--allow-commands", "--journal", str(tmp_path / "journal.sqlite")]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(("returned", "declared"), [((4, 3), (3, 4)), ((12,), (3, 4)), ((3, 4, 1), (3, 4))])
def test_a_reference_that_returns_another_shape_is_refused_with_both(
        returned: tuple[int, ...], declared: tuple[int, ...]) -> None:
    with pytest.raises(ProblemError) as refusal:
        reference_results("double", "numpy:zeros", {}, {"shape": returned}, {"y": Tensor(declared)})
    assert str(refusal.value) == (
        f"the reference numpy:zeros of double returns the shape {returned} for y; {declared} is declared")


@pytest.mark.device
def test_a_problem_that_is_too_large_is_a_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="double: x is too large"):
        measure(tmp_path, problem="double n=2147483647")


@pytest.mark.device
def test_a_default_configuration_that_never_ends_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    text = LIBRARY.replace('reference = "reference:run"\n', "")
    with pytest.warns(SeqtuneWarning, match=r"plain\.k failed: it did not end within 6 s \(width=1\); compared with "
                                            r"width=2 instead; to choose the default, write `default = \{width = 2\}`"):
        measure(tmp_path, text, "ENDLESS", patience=6.0)  # on busy cores the next one needs some, too


def test_a_device_without_a_kernel_for_the_operation_is_refused_with_those_that_have_one(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    path = write(tmp_path, LIBRARY.replace('reference = "reference:run"\n', ""))
    seqtune.use_library(path)
    device = Device("fake:0", "fake", "maker", "none")
    with pytest.raises(KernelError, match=r"none for double; its kernels run on opencl \(--device opencl:0\)"):
        Task.of(parse_problem("double n=4"), device)
    assert main(["predict", "double", "n=4", "--device", "cuda:h200", "--library", str(path)]) == 2
    assert "(--device opencl:0)" in capsys.readouterr().err
