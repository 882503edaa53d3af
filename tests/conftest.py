"""Fixtures that several folders share; what takes long to make is made once in a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from tests.support import label_toys, planted_labels, synthetic, untrained


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty journal."""
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained translator for llvm devices: its proposals are valid, and of no merit."""
    return untrained.save(tmp_path_factory.mktemp("checkpoint") / "untrained")


@pytest.fixture
def fake_kernel() -> Iterator[None]:
    """Registers `fake.direct` for one test: modules ask for it with `pytest.mark.usefixtures`."""
    with synthetic.registered():
        yield


@pytest.fixture(scope="session")
def label_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Perf-dbs of two GPUs and a find-db, whose labels follow rules."""
    folder = tmp_path_factory.mktemp("miopen")
    return [*planted_labels.perf_files(folder), planted_labels.find_file(folder)]


@pytest.fixture(scope="session")
def label_data(label_files: list[Path]) -> Dataset:
    """The data set of those files."""
    return label_toys.read(label_files)


@pytest.fixture(scope="session")
def label_parts(label_data: Dataset) -> label_toys.Parts:
    """The labels by kernel: to learn from, and to judge with."""
    return label_toys.parts(label_data)


@pytest.fixture(scope="session")
def label_checkpoint(label_data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a checkpoint that learned from those labels for seconds."""
    return label_toys.trained(label_data, tmp_path_factory.mktemp("checkpoints") / "labels")
