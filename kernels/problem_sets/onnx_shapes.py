"""Shapes of the values of an ONNX model, inferred in a process of its own.

ONNX's shape inference is compiled code that a hostile file can crash or make take all memory (github.com/onnx/onnx,
pull requests 8303 and 8321). The process runs this file, so nothing of seqtune is imported at its top.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SECONDS = 60.0  # a model of 10,000 nodes takes two
MEMORY = 4 << 30  # bytes
MOST_AXES = 16  # of a shape that is returned
_REFUSED = 3  # the exit code if ONNX refuses the model


def inferred_values(model: bytes) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, str]]:
    """The shapes of values that are known whole, and ONNX's names of the element types, by name of the value.

    What the file claims of a value counts only where inference finds nothing, as behind operators of other domains.
    Raises FormatError with the reason where no shapes can be inferred.
    """
    from seqtune.errors import FormatError, one_line

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run([sys.executable, "-P", __file__], input=model, capture_output=True, timeout=SECONDS,
                              env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise FormatError(f"no shapes can be inferred within {SECONDS:.0f} s") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace") if done.returncode == _REFUSED else "ONNX's inference crashed"
        raise FormatError(f"no shapes can be inferred: {one_line(reason, 200)}")
    answer = json.loads(done.stdout)
    return {name: tuple(shape) for name, shape in answer["shapes"].items()}, answer["elements"]


def _infer() -> dict[str, Any]:
    """The values of the model on standard input."""
    import onnx

    with suppress(ImportError):  # another system
        import resource

        for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(limit, (most, most))
    model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
    claims = list(model.graph.value_info)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    found = {value.name for value in graph.value_info if _sizes(value) is not None}
    if any(claim.name not in found for claim in claims):
        model.graph.value_info.extend(claim for claim in claims if claim.name not in found)
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    shapes: dict[str, list[int]] = {}
    elements: dict[str, str] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        element, sizes = value.type.tensor_type.elem_type, _sizes(value)
        elements[value.name] = names.get(element, str(element))
        if sizes is not None:
            shapes[value.name] = sizes
    return {"shapes": shapes, "elements": elements}


def _sizes(value: Any) -> list[int] | None:
    """The shape of a value; None if a size of it is unknown."""
    tensor = value.type.tensor_type
    axes = tensor.shape.dim
    known = tensor.HasField("shape") and len(axes) <= MOST_AXES and all(axis.HasField("dim_value") for axis in axes)
    return [axis.dim_value for axis in axes] if known else None


if __name__ == "__main__":
    try:
        print(json.dumps(_infer()))
    except Exception as error:  # compiled code has exceptions of its own
        sys.stderr.write(str(error) or type(error).__name__)
        sys.exit(_REFUSED)
