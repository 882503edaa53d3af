"""Kernels in Triton as folders: a module with the kernel and a function that takes PyTorch tensors."""

from __future__ import annotations

from dataclasses import replace
from pprint import pformat

from seqtune.errors import MissingPackageError, one_line
from seqtune.kernels.operations.table import operation
from seqtune.kernels.triton.text import constants_of

from ..backends.triton.compiler import compile_call
from .called_folder import Language, call_for, called_folder, one_by_one
from .chosen import Chosen, Files, template
from .description import described_call

LANGUAGE = Language("triton", ".py")
_NEEDS = """\
`{name}.py` needs PyTorch and Triton alone: `{name}.run(x=x, weights=weights)` takes contiguous tensors of one GPU, by
the names of the inputs, and returns the output. `run.py` needs NumPy, too."""
_END = "# What follows stands in every module.\n"


@one_by_one
def write(chosen: Chosen) -> Files:
    """The files of a kernel. Raises BuildError, SeqtuneErrors."""
    call, remarks = call_for(chosen), []
    try:
        compile_call(call, chosen.device)
    except MissingPackageError as error:
        remarks = [f"The kernel was not compiled here: {one_line(error, 200)}."]
    constants = constants_of(call.source)[1]
    part = described_call(call, operation(chosen.problem.type).tensors(chosen.problem), {})
    about = {"constants": constants, **{name: part[name] for name in ("buffers", "workspaces", "launches")}}
    text = (f"{call.source.text}\n\n# {chosen.name}: {chosen.problem.brief()}\n"
            f"ABOUT = {pformat(about, width=110, sort_dicts=False)}\n\n"
            f"{template('triton_end.py').decode().partition(_END)[2]}")
    call = replace(call, source=replace(call.source, text=text))
    return called_folder(chosen, call, LANGUAGE, [_NEEDS.format(name=chosen.name), *remarks],
                         more={"constants": constants})
