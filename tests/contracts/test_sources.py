"""Generated sources belong to the version of their kernel family: records of another text must not count as today's."""

from __future__ import annotations

import pytest

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


