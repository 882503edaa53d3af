"""Built layers: kernels as `seqtune build` gives them, called from Python and as functions in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import Contestant
from benchmarks.common.progress import say
from seqtune.errors import SeqtuneError, one_line

from .layer import Layer, OurKernel
from .problem_sets import IN_C, IN_PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqtune.tuner.building.chosen import Chosen

NAME = "layer"  # begins the names of the functions in C


def built_contestants(kernel: OurKernel, layer: Layer, stack: ExitStack) -> list[Contestant]:
    """The built kernel's call from Python, which makes a new array, and its function in C, called through ctypes.

    Both take packed weights. Without a C compiler, the function is left out. Raises SeqtuneError for a wrong result.
    """
    from seqtune.kernels.registry import kernel as family
    from seqtune.tuner.building.built_kernel import built_kernel
    from seqtune.tuner.building.chosen import Chosen

    chosen = Chosen(NAME, kernel.problem, kernel.device, family(kernel.configuration.kernel), kernel.configuration,
                    "a search")
    built = built_kernel(chosen)
    values: list[Any] = [array.copy() for array in layer.operands.values()]
    values[list(layer.operands).index("weights")] = built.pack(layer.operands["weights"])
    ways: dict[str, Callable[[], NDArray[Any]]] = {IN_PYTHON: lambda: built(*values)}
    if shutil.which("cc") is None:
        say("no C compiler is here: the function in C is left out")
    else:
        ways[IN_C] = _function(chosen, values, layer, stack)
    return [Contestant(way + kernel.method, run, layer.checked(run, way + chosen.configuration.brief()), kernel.details)
            for way, run in ways.items()]


def _function(chosen: Chosen, values: list[Any], layer: Layer, stack: ExitStack) -> Callable[[], NDArray[Any]]:
    """The call of the folder's NAME_run on memory that is there. Raises SeqtuneError if it does not compile."""
    from seqtune.kernels.llvm.aligned import address_of, aligned
    from seqtune.kernels.llvm.launch import llvm_implementation
    from seqtune.tuner.building.chosen import files_of, write_folder

    folder = Path(stack.enter_context(TemporaryDirectory())) / NAME
    write_folder(files_of([chosen]), folder)
    command = ["cc", "-std=c99", "-O2", "-fPIC", "-fopenmp", "-shared", "-o", "layer.so", f"{NAME}.c", f"{NAME}.o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeqtuneError(f"the folder of {chosen.problem.brief()} does not compile: {one_line(done.stderr)}")
    run = ctypes.CDLL(str(folder / "layer.so"))[f"{NAME}_run"]
    launch = llvm_implementation(chosen.kernel).launch(chosen.problem, chosen.device, chosen.configuration)
    y, workspace = aligned(layer.expected.y.shape, layer.expected.y.dtype), aligned((launch.workspace,))
    places = [value.address if hasattr(value, "address") else address_of(value) for value in values]
    arguments = [ctypes.c_void_p(place) for place in (*places, address_of(y), workspace.ctypes.data)]

    def call(kept: object = (values, workspace)) -> NDArray[Any]:  # the function has their addresses alone
        run(*arguments)
        return y

    return call
