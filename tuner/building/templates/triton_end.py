"""The end of a module of a Triton kernel, whose ABOUT is of launch.json."""

from typing import Any

ABOUT: dict[str, Any] = {}


# What follows stands in every module.

import functools  # noqa: E402

import torch  # noqa: E402

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")  # of Triton's compiler
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
         "int8": torch.int8, "int32": torch.int32}


def run(y: Any = None, **inputs: Any) -> Any:
    """The output for contiguous tensors of one device, by the names of the inputs; it is written to `y` if given."""
    tensors = {**inputs, "y": y}
    device = next(iter(inputs.values())).device
    for name, buffer in ABOUT["buffers"].items():
        if tensors.get(name) is None and buffer["role"] == "output":
            tensors[name] = torch.empty(buffer["shape"], dtype=TYPES[buffer["type"]], device=device)
        tensor = tensors[name]
        wanted = tuple(buffer["shape"]), TYPES[buffer["type"]]
        if (tuple(tensor.shape), tensor.dtype) != wanted or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tensor.dtype} {tuple(tensor.shape)}; a contiguous {wanted[1]} {wanted[0]} is "
                             "needed")
    for name, workspace in ABOUT["workspaces"].items():
        tensors[name] = _scratch(workspace["type"], workspace["bytes"], device)
    for launch in ABOUT["launches"]:
        function = globals()[launch["entry"]]
        constants = {name: value for name, value in ABOUT["constants"].items()
                     if name in OPTIONS or name in function.arg_names}
        arguments = [tensors[argument["name"]] if "name" in argument else argument["value"] if "value" in argument
                     else _scratch(argument["type"], 8, device) for argument in launch["arguments"]]
        function[tuple(launch["groups"])](*arguments, **constants, enable_fp_fusion=True)
    return tensors["y"]


@functools.lru_cache(maxsize=16)
def _scratch(dtype: str, size: int, device: Any) -> Any:
    """Memory for a workspace, or for an operand that the problem does not have; it is kept for the next run."""
    return torch.zeros(-(-size // TYPES[dtype].itemsize), dtype=TYPES[dtype], device=device)
