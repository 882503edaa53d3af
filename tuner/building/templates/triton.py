"""The end of a module of a Triton kernel: ABOUT is launch.json's description, `reference` the reference in NumPy."""

from typing import Any

ABOUT: dict[str, Any] = {}


def reference(**operands: Any) -> Any:
    """The output in double precision."""


# What follows stands in every module.

import functools  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

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


def _seconds(inputs: dict[str, Any], device: str) -> float:
    """The seconds of one run: by the GPU's events, or in Triton's interpreter by the clock."""
    if device == "cpu":
        begin = time.perf_counter()
        run(**inputs)
        return time.perf_counter() - begin
    event: Any = torch.cuda.Event
    events = [event(enable_timing=True) for _ in range(2)]
    events[0].record()
    run(**inputs)
    events[1].record()
    events[1].synchronize()
    return 1e-3 * float(events[0].elapsed_time(events[1]))


def main() -> int:
    """Compare the results with the reference, and time a run: 0 right, 1 wrong, 2 not possible on this machine."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and not torch.cuda.is_available():
        print("PyTorch finds no GPU here; TRITON_INTERPRET=1 runs the kernel in Triton's interpreter", file=sys.stderr)
        return 2
    if interpreted and any(buffer["type"] == "bf16" for buffer in ABOUT["buffers"].values()):
        print("Triton's interpreter does not compute with bf16", file=sys.stderr)
        return 2
    device = "cpu" if interpreted else "cuda"
    generator = torch.Generator().manual_seed(1)
    inputs = {name: (2 * torch.rand(buffer["shape"], generator=generator) - 1).to(TYPES[buffer["type"]]).to(device)
              for name, buffer in ABOUT["buffers"].items() if buffer["role"] == "input"}
    y = torch.full(ABOUT["buffers"]["y"]["shape"], math.nan, dtype=TYPES[ABOUT["buffers"]["y"]["type"]], device=device)
    found = run(y=y, **inputs).double().cpu().numpy()
    expected = reference(**{name: tensor.double().cpu().numpy() for name, tensor in inputs.items()})
    error, allowed = float(abs(found - expected).max() / (abs(expected).max() or 1.0)), ABOUT["allowed"]
    wrong = not error <= allowed
    name = "Triton's interpreter" if interpreted else torch.cuda.get_device_name()
    line = (f"{ABOUT['name']} on {name}: {'WRONG' if wrong else 'right'}, largest error {error:.2e} "
            f"(allowed {allowed:.1e})")
    if not wrong:
        times = [_seconds(inputs, device) for _ in range(1 if interpreted else 20)]
        line += f", median of {len(times)} runs {1e6 * statistics.median(times):.1f} us"
    print(line)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
