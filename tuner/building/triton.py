"""Kernels in Triton as folders: a module with the kernel and a function that takes PyTorch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pprint import pformat

from seqtune.errors import MissingPackageError, one_line
from seqtune.kernels.operations.table import operation
from seqtune.kernels.triton.text import constants_of

from ..backends.triton.compiler import compile_call
from .called_folder import call_for, folders, template
from .chosen import Chosen, Files
from .description import LAUNCH_JSON, README, described_call, launch_json, readme
from .reference import reference_text

_END = "# What follows stands in every module.\n"
_HOW = """\
`{name}.py` needs PyTorch and Triton alone. `{name}.run(x=x, weights=weights)` takes contiguous tensors of one GPU, by
the names of the inputs, and returns the output. The module compares itself with a reference in double precision (which
needs NumPy), and prints one line with the largest error and the time of a run:

    python {name}.py"""


def write(chosen: Sequence[Chosen]) -> Files:
    """The files of a folder; of several kernels each has a folder of its own. See `WRITERS`."""
    return folders(chosen, {one.name: _folder(one) for one in chosen})


def _folder(chosen: Chosen) -> Files:
    """The files of one kernel. Raises BuildError, SeqtuneErrors."""
    call, remarks = call_for(chosen), []
    try:
        compile_call(call, chosen.device)
    except MissingPackageError as error:
        remarks = [f"The kernel was not compiled here: {one_line(error, 200)}."]
    tensors = operation(chosen.problem.type).tensors(chosen.problem)
    part = described_call(call, tensors, {})
    reference = reference_text(chosen.problem, {name: tensor.dtype for name, tensor in tensors.inputs.items()})
    about = {"name": chosen.name, "allowed": reference.tolerance, "constants": constants_of(call.source)[1],
             **{name: part[name] for name in ("buffers", "workspaces", "launches")}}
    text = (f"{call.source.text}\n\n# {chosen.name}: {chosen.problem.brief()}\n"
            f"ABOUT = {pformat(about, width=110, sort_dicts=False)}\n\n\n"
            f"import numpy as np\n\n\n{reference.python}\n\n{template('triton.py').partition(_END)[2]}")
    return {README: readme([chosen], [_HOW.format(name=chosen.name), *remarks]),
            LAUNCH_JSON: launch_json([(chosen, part | {"constants": about["constants"]})]),
            f"{chosen.name}.py": text.encode()}
