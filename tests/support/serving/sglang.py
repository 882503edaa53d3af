"""SGLang's own loaders of tuned files, taken out of its wheel and run without SGLang, torch or a GPU."""

from __future__ import annotations

import ast
import functools
import json
import logging
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

VARIABLE = "SEQTUNE_SGLANG_WHEEL"  # the path of a wheel of SGLang, 0.5.23 or later
EXPERTS = "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py"
LINEAR = "sglang/kernels/ops/gemm/fp8_kernel.py"


def wheel() -> zipfile.ZipFile:
    """The wheel that the variable names; the test is skipped without one."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).is_file():
        pytest.skip(f"{VARIABLE} names no wheel of SGLang")
    return zipfile.ZipFile(path)


def expert_loader(monkeypatch: pytest.MonkeyPatch, device: str, triton: str) -> ModuleType:
    """SGLang's module with `get_moe_configs` and `try_get_optimal_moe_config`, for a device and a version of Triton."""
    with wheel() as archive:
        source = archive.read(EXPERTS).decode()
    settings = SimpleNamespace(deterministic=SimpleNamespace(enable_deterministic_inference=False))
    stubs: dict[str, dict[str, Any]] = {
        "torch": {"dtype": object, "float": object()}, "triton": {"__version__": triton}, "sglang": {},
        "sglang.srt": {}, "sglang.srt.runtime_context": {"get_exec": lambda: settings},
        "sglang.srt.utils": {"get_device_name": lambda: device, "is_hip": lambda: False}, "sglang.srt.layers": {},
        "sglang.srt.layers.moe": {}, "sglang.srt.layers.moe.moe_runner": {},
        "sglang.srt.layers.moe.moe_runner.triton_utils": {"get_config": lambda: None}}
    for name, attributes in stubs.items():
        stub = ModuleType(name)
        vars(stub).update(attributes)
        monkeypatch.setitem(sys.modules, name, stub)
    loader = ModuleType("fused_moe_triton_config")
    vars(loader)["__file__"] = str(Path("nowhere") / Path(EXPERTS).name)
    exec(compile(source, EXPERTS, "exec"), vars(loader))
    return loader


def linear_loader(folder: Path, device: str) -> Callable[[int, int, int, int], dict[int, dict[str, int]] | None]:
    """SGLang's `get_w8a8_block_fp8_configs`, which looks in the folder `configs` of the given one."""
    with wheel() as archive:
        tree = ast.parse(archive.read(LINEAR).decode())
    name = "get_w8a8_block_fp8_configs"
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    names: dict[str, Any] = {
        "__file__": str(folder / "fp8_kernel.py"), "functools": functools, "json": json, "os": os, "Any": Any,
        "Dict": dict, "Optional": Callable, "logger": logging.getLogger("sglang"), "_is_cuda": True,
        "torch": SimpleNamespace(_dynamo=SimpleNamespace(is_compiling=lambda: False)),
        "get_device_name": lambda: device, "log_info_on_rank0": lambda *_: None}
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    exec(compile(ast.fix_missing_locations(ast.Module([future, function], [])), LINEAR, "exec"), names)
    loader: Callable[[int, int, int, int], dict[int, dict[str, int]] | None] = names[name]
    return loader
