"""Version parts: the digests of all that a declared kernel's version covers, and the version that they give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ..kernel import are_whole
from ..operations.operation import Operation
from .declared_operation import DeclaredOperation
from .digests import digest_of, source_digests
from .document import KernelDocument
from .restoring import restored_arrays
from .run_sections import SourceSection

LARGEST_VERSION = 2**31 - 1  # data sets hold versions as int32


def version_of(parts: object) -> int:
    """A version from 1 to LARGEST_VERSION: a digest of the parts, which JSON can hold."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return 1 + int.from_bytes(digest[:8], "big") % LARGEST_VERSION


def version_parts(document: KernelDocument, operation: Operation, files: Mapping[str, str]
                  ) -> tuple[tuple[str, str], ...]:
    """The digests of all that affects what a configuration runs and its inputs, by file or by key of the document.

    Parameter values and constraints are left out: records stay valid when configurations are added or removed. So are
    comments, insignificant white space, and `tolerance`, which changes no time. The names of parameters with fractions
    or booleans count: once these were words or whole numbers.
    """
    keys: dict[str, object] = {
        "parameters": [sorted(document.parameters), *_with_fractions(document)], "derived": document.derived,
        "implementation": document.implementation, "restored": restored_arrays(document, operation)}
    parts = dict(files)
    for backend, section in document.sections().items():
        declared = section.model_dump(mode="json", by_alias=True, exclude={"source", "text"}, exclude_defaults=True)
        keys |= {f"{backend}.{key}": value for key, value in declared.items()}
        if isinstance(section, SourceSection):
            parts |= source_digests(section.source or f"{backend}.text", section.text or "")
    if isinstance(operation, DeclaredOperation):
        path, work = f"operations.{operation.name}", operation.document.model_dump(
            mode="json", include={"derived", "inputs", "outputs", "reference", "expected"}, exclude_defaults=True,
            exclude={"inputs": {"__all__": {"restore"}}, "outputs": {"__all__": {"restore", "tolerance"}}})
        for part in ("inputs", "outputs"):
            keys |= {f"{path}.{part}.{name}": array for name, array in work.pop(part, {}).items()}
        keys |= {f"{path}.{key}": value for key, value in work.items()}
    parts |= {key: digest_of([json.dumps(value, sort_keys=True)]) for key, value in keys.items() if value}
    return tuple(sorted(parts.items()))


def former_versions(document: KernelDocument, operation: Operation, files: Mapping[str, str] | None) -> tuple[int, ...]:
    """The version that 0.2.0 gave: a digest of texts and bytes with comments, and of the keys that it knew.

    There is none if it did not cover all files (`files` is None), or ran the kernel in another way: with words for
    fractions, or without restoring what the kernel changes.
    """
    if files is None or document.version or _with_fractions(document) or restored_arrays(document, operation):
        return ()
    parts: dict[str, object] = {
        "parameters": sorted(document.parameters), "derived": document.derived, "files": dict(files),
        "implementation": document.implementation,
        **{backend: section.model_dump(mode="json", exclude={"source"})
           for backend, section in document.sections().items()}}
    if isinstance(operation, DeclaredOperation):
        work = operation.document
        parts["operation"] = work.model_dump(mode="json", include={
            "derived": True, "reference": True, "expected": True,
            "inputs": {"__all__": {"shape", "dtype", "values"}},
            "outputs": {"__all__": {"shape", "dtype", "tolerance", "check", "values"}}})
    return (version_of(parts),)


def _with_fractions(document: KernelDocument) -> list[str]:
    """The names of the parameters with fractions or booleans."""
    return sorted(name for name, parameter in document.parameters.items() if not are_whole(parameter.values))
