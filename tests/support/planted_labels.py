"""Labels and timings of solvers that follow simple rules, in MIOpen's file formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.miopen_files import perf_text

SIZES = [(7, 7), (14, 14), (28, 28), (56, 56), (13, 17)]


def mlir(k: int, pixels: int) -> str:
    """A label of ConvMlirIgemmFwd: the largest block that divides the channels, and small blocks for small images."""
    m = next(block for block in (128, 64, 32) if k % block == 0)
    n = 32 if pixels < 100 else 64 if pixels < 1000 else 128
    return f"{128 if m * n >= 4096 else 64},{m},{n},8,{4 if m >= 64 else 2},2"


def groups(n: int, units: int) -> str:
    """A label of ConvBinWinogradRxSf2x3: all compute units for large batches, half of them for small ones."""
    return str(units if n >= 16 else units // 2)


def perf_files(folder: Path, count: int = 300, seed: int = 0) -> list[Path]:
    """Write perf-dbs of two GPUs with `count` random problems and one label per problem and solver."""
    generator = np.random.default_rng(seed)
    labels: dict[str, dict[str, dict[str, str]]] = {"gfx906_60": {}, "gfx900_56": {}}
    for _ in range(count):
        n, c = int(generator.choice([1, 8, 16, 32])), int(generator.integers(1, 65)) * 8
        k, (h, w) = int(generator.integers(1, 33)) * 32, SIZES[int(generator.integers(len(SIZES)))]
        direction = "FB"[int(generator.integers(2))]
        key = f"2x{c}x{h}x{w}x1x3x3x1x{k}x{n}x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32x{direction}"
        labels["gfx900_56"][key] = {"ConvBinWinogradRxSf2x3": groups(n, 56)}
        labels["gfx906_60"][key] = {"ConvBinWinogradRxSf2x3": groups(n, 60)}
        if direction == "F":
            labels["gfx906_60"][key]["ConvMlirIgemmFwd"] = mlir(k, h * w)
    return [perf_text(folder / f"{name}.HIP.udb.txt", device_labels) for name, device_labels in labels.items()]


def find_file(folder: Path, count: int = 200, seed: int = 1) -> Path:
    """Write a find-db in which a matrix product is fastest for small batches, and Winograd for the others."""
    generator = np.random.default_rng(seed)
    lines = {}
    for _ in range(count):
        n, c = int(generator.choice([1, 8, 16, 32])), int(generator.integers(1, 65)) * 8
        k, (h, w) = int(generator.integers(1, 33)) * 32, SIZES[int(generator.integers(len(SIZES)))]
        gemm, winograd = (0.5, 1.0) if n < 16 else (2.0, 1.0)
        items = [f"GemmFwdRest:{gemm},0,miopenConvolutionFwdAlgoGEMM",
                 f"ConvBinWinogradRxSf2x3:{winograd},0,miopenConvolutionFwdAlgoWinograd"]
        if h < 28:
            items.append("ConvDirectNaiveConvFwd:9.0,0,miopenConvolutionFwdAlgoDirect")
        lines[f"{c}-{h}-{w}-3x3-{k}-{h}-{w}-{n}-1x1-1x1-1x1-0-NCHW-FP32-F"] = ";".join(items)
    path = folder / "gfx906_60.HIP.fdb.txt"
    path.write_text("".join(f"{key}={items}\n" for key, items in lines.items()))
    return path
