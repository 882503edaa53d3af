"""Models are optimised without measuring, on one thread, with the proposals of an untrained translator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from seqtune.errors import is_installed
from seqtune.kernels.devices.device import Device

if TYPE_CHECKING:
    from torch import nn

    from seqtune.networks.optimized import Optimized


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Run PyTorch's own operations on one thread: on a busy machine two threads wait for each other.

    Steps and plans are also tested without PyTorch.
    """
    if not is_installed("torch"):
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def seed() -> None:
    """Seed the weights and inputs that a test draws."""
    if is_installed("torch"):
        import torch

        torch.manual_seed(0)


@pytest.fixture
def quick(checkpoint: Path) -> Callable[..., Optimized]:
    """`optimize` without measuring, on one thread."""
    pytest.importorskip("seqtune.integrations.pytorch", reason="the guest that captures networks is deleted")
    from seqtune.integrations.pytorch.hook.optimization import optimize
    from seqtune.networks.program.device_threads import device_for_threads

    one_thread = device_for_threads(1)  # llvm:1 on more cores than one

    def made(model: nn.Module, example: Any, device: Device | str = one_thread, **options: Any) -> Optimized:
        return optimize(model, example, device=device, verify=False, checkpoint=checkpoint, **options)

    return made


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a default journal of its own, so that no choice of another test is remembered."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
