"""Second traces of an exported graph are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@pytest.fixture
def second_traces(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that PyTorch traces a second time."""
    from torch.export import ExportedProgram

    found: list[ExportedProgram] = []
    run: Callable[..., ExportedProgram] = ExportedProgram.run_decompositions

    def counted(program: ExportedProgram, *args: Any, **kwargs: Any) -> ExportedProgram:
        found.append(program)
        return run(program, *args, **kwargs)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", counted)
    return found
