"""Small files in MIOpen's formats."""

from __future__ import annotations

import bz2
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from seqtune.integrations.miopen.formats.export import _SCHEMA
from seqtune.integrations.miopen.formats.terms import COLUMNS

# key as in MIOpen's text files -> labels by solver; the key ends in layout, data type and direction
LABELS: dict[str, dict[str, str]] = {
    "2x64x28x28x1x1x1x1x256x32x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF": {
        "ConvAsm1x1U": "1,16,4,16,1,2,1,2", "ConvOclDirectFwd1x1": "1,64,1,1,1,1,16,64,0"},
    "2x256x28x28x1x1x1x1x64x32x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB": {"ConvAsm1x1U": "2,16,5,16,2,2,1,2"},
    # backward with a stride of two: the input size is 55 or 56
    "2x256x28x28x1x1x1x1x64x32x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP32xB": {"ConvAsm1x1U": "2,16,5,16,2,2,1,2"},
    "2x256x28x28x1x1x1x1x64x32x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP32xW": {"ConvAsmBwdWrW1x1": "4,4,2,1,2,1,2,4,0,1"},
    "2x64x56x56x1x3x3x1x64x16x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF": {
        "ConvOclDirectFwd": "16,16,32,32,2,2,2,4,2", "ConvAsm3x3U": "0,2,4", "ConvBinWinogradRxSf2x3": "60",
        "ConvMlirIgemmFwd": "128,32,64,8,2,4"},
    "2x64x8x8x1x1x1x1x64x64x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF": {
        "ConvHipImplicitGemmV4R1Fwd": "16,64,8,2,4,4,4,4,2,4,8,1,16,1,2,64"},
    # three dimensions
    "3x16x8x8x8x3x3x3x32x4x1x1x1x1x1x1x1x1x1x0x1xNCDHWxFP32xF": {"ConvHipImplicitGemmV4R4Fwd": "64,32,32,8,2,2"},
}
MATRIX_LABELS: dict[str, dict[str, str]] = {
    "2x256x14x14x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF": {
        "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC":
        "fwd,nhwc,fp32,0,0,64,64,16,32,32,2,1,1,1,1,0,0,0,0,0,1,4,1,1,1,4,1,64,1,4,1,1,1,4,1,64,7"},
    "2x512x14x14x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF": {
        "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC":
        "fwd,nhwc,fp32,0,0,128,64,16,32,32,2,1,1,2,1,0,0,2,0,0,1,4,1,1,1,4,1,64,1,4,1,1,1,4,1,64,9[2]"},
}
NEW_FIND = (
    "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F=ConvAsm1x1U:0.5,0,miopenConvolutionFwdAlgoDirect;"
    "GemmFwd1x1_0_1:0.25,4096,miopenConvolutionFwdAlgoGEMM\n"
    "256-28-28-1x1-64-56-56-32-0x0-2x2-1x1-0-NCHW-FP32-B=GemmBwd1x1_stride2:1e-1,8,miopenConvolutionBwdDataAlgoGEMM\n"
    "16-8-8-8-3x3x3-32-8-8-8-4-1x1x1-1x1x1-1x1x1-0-NDHWC-NDHWC-NDHWC-FP16-F_g2=GemmFwdRest:2,0,"
    "miopenConvolutionFwdAlgoGEMM\n")
OLD_FIND = ("64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F=miopenConvolutionFwdAlgoDirect:ConvAsm1x1U,0.5,0,"
            "miopenConvolutionFwdAlgoDirect,<unused>\n")


def perf_text(path: Path, labels: dict[str, dict[str, str]]) -> Path:
    """Write a perf-db as text."""
    path.write_text("".join(
        f"{key}={';'.join(f'{solver}:{params}' for solver, params in solvers.items())}\n"
        for key, solvers in labels.items()))
    return path


def perf_db(path: Path, labels: dict[str, dict[str, str]], more: Iterable[str] = ()) -> Path:
    """Write a perf-db as SQLite, compressed if the name ends in `.bz2`; then run the SQL statements `more` on it."""
    plain = path.with_suffix("") if path.suffix == ".bz2" else path
    connection = sqlite3.connect(plain)
    for statement in _SCHEMA:
        connection.execute(statement)
    for row, (key, solvers) in enumerate(labels.items(), 1):
        connection.execute(f"INSERT INTO config(id, {','.join(COLUMNS)}) VALUES({','.join('?' * (len(COLUMNS) + 1))})",
                           [row, *key.split("x")])
        for solver, params in solvers.items():
            connection.execute("INSERT INTO perf_db(solver, config, params) VALUES(?, ?, ?)", (solver, row, params))
    for statement in more:
        connection.execute(statement)
    connection.commit()
    connection.close()
    if plain != path:
        path.write_bytes(bz2.compress(plain.read_bytes()))
    return path
