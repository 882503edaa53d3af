"""Models are optimised without measuring, on one thread (`tests/support/networks/fixtures.py`); graphs of Dynamo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.networks.fixtures import one_thread, own_journal, quick, seed

if TYPE_CHECKING:
    from seqtune.integrations.pytorch.hook.dynamo import ShapedPrograms

__all__ = ["graphs", "noting", "one_thread", "own_journal", "quick", "seed"]


@pytest.fixture
def graphs() -> list[ShapedPrograms]:
    """The graphs that `noting` has compiled."""
    return []


@pytest.fixture
def noting(graphs: list[ShapedPrograms]) -> Callable[..., Any]:
    """A backend of torch.compile with these options that notes its graphs; or, with limits or tools, one with these."""
    from seqtune.integrations.pytorch.hook.dynamo import BackendOptions, ShapedPrograms, backend

    def made(options: dict[str, Any], **parts: Any) -> Any:
        def noted(module: Any, inputs: Any) -> Any:
            result = ShapedPrograms(module, inputs, BackendOptions.of(options), **parts) if parts else backend(
                module, inputs, options=options)
            graphs.extend([result] if isinstance(result, ShapedPrograms) else [])
            return result

        return noted

    return made
