"""Generated sources belong to the version of their kernel family: records of another text must not count as today's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from seqtune.kernels.launches.call import Call
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.lookup import resolve
from seqtune.kernels.registry import kernel, names
from tests.support.source_digests import digest, stored

IMPLEMENTED = [name for name in names() if kernel(name).implementation is not None]


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_a_family_that_generates_other_code_has_another_version(name: str) -> None:
    family, entry = kernel(name), stored().get(name)
    write = "then run `python -m tests.support.source_digests`"
    assert entry is not None, f"no digest of {name} is stored: {write}"
    assert entry["version"] == family.version, f"the stored digest is of version {entry['version']}: {write}"
    assert digest(family, entry["samples"]) == entry["digest"], (
        f"{name} generates other code than version {family.version} did: raise its version, {write} "
        "(with --neutral where only names or comments changed)")


def longer(source: KernelSource) -> KernelSource:
    return replace(source, text=source.text + " ")


@pytest.mark.parametrize("name", ["llvm.gemm", "cuda.gemm"])
def test_the_digest_sees_a_change_of_one_character(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = stored()[name]["samples"]
    before = digest(kernel(name), samples)
    implementation: Any = resolve(str(kernel(name).implementation))
    if name == "llvm.gemm":
        source_of: Callable[..., KernelSource] = implementation.source
        monkeypatch.setattr(type(implementation), "source", lambda self, *given: longer(source_of(*given)))
    else:
        call_of: Callable[..., Call] = implementation.call
        monkeypatch.setattr(type(implementation), "call", lambda self, *given: replace(
            call := call_of(*given), source=longer(call.source)))
    assert digest(kernel(name), samples) != before
