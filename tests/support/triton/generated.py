"""Triton's functions of users and other tools, compiled for GPUs that are not here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.triton.compiler import FUSION, target_of


def load(text: str, path: Path) -> Any:
    """The module of a text, which is kept in a file: Triton reads the source of its functions."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compiled(function: Any, signature: Mapping[str, str], aligned: Iterable[int], device: Device,
             options: Mapping[str, Any], constants: Mapping[str, object] | None = None) -> Any:
    """The kernel of a Triton function; `aligned` are the indices of arguments that 16 divides."""
    import triton
    from triton.compiler import ASTSource

    values = {(function.arg_names.index(name),): value for name, value in (constants or {}).items()}
    source = ASTSource(fn=function, signature=dict(signature), constexprs=values,
                       attrs={(index,): [["tt.divisibility", 16]] for index in aligned})
    return triton.compile(source, target=target_of(device), options={**FUSION, **options})
