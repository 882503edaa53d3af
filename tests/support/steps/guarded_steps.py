"""Generated steps between guard pages: `python -m tests.support.steps.guarded_steps`. A mistake ends this process.

Every buffer ends where a page begins that may be neither read nor written, or begins behind one. The line printed last
names what was run then.
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.networks.steps.gather import gather
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.pooling import Window, average_pool, max_pool
from seqtune.networks.steps.reduction import reduction
from seqtune.networks.steps.rows import row_step
from seqtune.networks.steps.step_source import StepSource
from seqtune.networks.steps.view import View
from tests.support.guarded import guarded, guarded_bytes
from tests.support.steps.runs import WIDTHS, launch

ADD = Formula.of("add", 0, 1)
KINDS = ((FP32, 35), (FP32, 1), (Element("bf16"), 35))  # element and size


def steps(size: int, lanes: int, element: Element = FP32) -> list[tuple[str, StepSource, list[View]]]:
    """Steps of every kind about a size, with the views of the output and of the operands, stored as one element."""
    def dense(*shape: int) -> View:
        return View.contiguous(shape, 0, element)

    line, square, turned = dense(size), dense(size, size + 1), dense(size + 1, size).permuted((1, 0))
    row, image, pixels = dense(size + 1).expanded(square.shape), dense(1, size + 1, size + 2, size), dense(
        1, size, size + 1, size)
    window, apart = Window((2, 2), (1, 1)), dense(3 * size).sliced(0, 0, 3 * size, 3)
    kept, mean = dense(1, size + 1), dense(1, 1, 1, size)
    return [
        ("sum", pointwise(ADD, line, [line, line], lanes), [line, line, line]),
        ("sum in tiles", pointwise(ADD, square, [turned, square], lanes), [square, turned, square]),
        ("sum of elements apart", pointwise(ADD, apart, [apart, line], lanes), [apart, apart, line]),
        ("softmax", row_step("softmax", square, [square], lanes), [square, square]),
        ("layer norm", row_step("layer_norm", square, [square, row, row], lanes, 1e-5),
         [square, square, row, row]),
        ("sum of columns", reduction("sum", kept, [square], (0,), lanes), [kept, square]),
        ("sum of rows", reduction("sum", kept, [turned], (0,), lanes), [kept, turned]),
        ("mean of pixels", reduction("mean", mean, [image], (1, 2), lanes), [mean, image]),
        ("max pool", max_pool(pixels, image, window, lanes), [pixels, image]),
        ("average pool", average_pool(pixels, image, window, lanes), [pixels, image])]


def _ones(view: View, at_end: bool) -> NDArray[np.uint8]:
    """The memory of a view that holds 1 everywhere."""
    buffer = guarded_bytes(view.element.bytes * view.extent, at_end)
    buffer[:] = encode(np.ones(view.extent, np.float32), view.element.dtype).view(np.uint8)
    return buffer


def main() -> None:
    """All steps on all instruction sets that are here; on the widest one in both sizes, and in bf16, too."""
    for instruction_set, lanes in WIDTHS:
        kinds = KINDS if lanes == max(WIDTHS, key=itemgetter(1))[1] else KINDS[:1]
        for at_end in (True, False):
            for element, size in kinds:
                for name, step, views in steps(size, lanes, element):
                    print(instruction_set, name, element.dtype, size, "before" if at_end else "behind", "a guard page",
                          flush=True)
                    buffers = [_ones(view, at_end) for view in views]
                    buffers[0].fill(0xFF)  # NaN
                    launch(step, instruction_set, [buffer.ctypes.data for buffer in buffers])
                    first = buffers[0][:element.bytes].view(np.uint16 if element.bytes == 2 else np.float32)
                    assert np.isfinite(decode(first, element.dtype)[0])
            print(instruction_set, "gather", flush=True)
            table, out = guarded((3, 21), at_end), guarded((4, 21), at_end)
            table.fill(1)
            indices, flag = np.array([2, 3, -1, 0]), np.zeros(1, np.int64)
            step = gather(View.contiguous(out.shape), View.contiguous(table.shape), View((4,), (2,)), [], lanes)
            launch(step, instruction_set, [array.ctypes.data for array in (out, table, indices, flag)])
            assert np.isnan(out[1:3]).all()
            assert (out[[0, 3]] == 1).all()
    print("done")


if __name__ == "__main__":
    main()
