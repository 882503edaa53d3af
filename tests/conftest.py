"""Fixtures that several folders share; what takes long to make is made once in a session.

They import what they need when they are asked for: PyTorch takes a second, which tests of kernels need not wait for.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import site
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from tests.support.installation.optional import OptionalFile
from tests.support.made_once import made_once
from tests.support.measuring.slowdown import SLOWDOWN, stretch_limits
from tests.support.seeds import shift_seeds

if TYPE_CHECKING:
    from tests.support.label_toys import Parts

# OpenMP reads these when PyTorch or XGBoost loads it. Its threads spin while they wait for each other, which multiplies
# the time of small trainings on busy cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# PoCL compiles in half of the time then, and no test rests on a speed; `make test-anywhere` compiles as usual, too.
os.environ.setdefault("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
os.environ.pop("COLUMNS", None)  # xdist's processes have it; what commands print would be wrapped as on a terminal
shift_seeds()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background


# Folders of the user by the variables that name them. Journals, caches and settings of the user may be in use and
# would change answers; compiled kernels of other versions must not answer.
OWN_FOLDERS = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state",
               "TORCHINDUCTOR_CACHE_DIR": "inductor"}
USERS_OWN = ("MPLCONFIGDIR", "HF_HOME", "POCL_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "RAY_AUTH_TOKEN_PATH")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the run folders of its own, which its processes and those that tests start share; see `OWN_FOLDERS`.

    Each process of tests has a journal of its own (XDG_DATA_HOME).
    """
    if not hasattr(config, "workerinput"):  # xdist's processes inherit the environment of the one that starts them
        from tests.support.measuring import recorded_rates

        base = Path(tempfile.mkdtemp(prefix="seqtune tests "))
        config.add_cleanup(lambda: shutil.rmtree(base, ignore_errors=True))
        os.environ["PYTHONUSERBASE"] = site.getuserbase()  # where pip --user installs, which depends on HOME
        for variable, name in OWN_FOLDERS.items():
            (base / name).mkdir()
            os.environ[variable] = str(base / name)
        for variable in USERS_OWN:
            os.environ.pop(variable, None)
        recorded_rates.keep()
    data = Path(os.environ["HOME"]).parent / f"data {os.environ.get('PYTEST_XDIST_WORKER', '')}".strip()
    data.mkdir(exist_ok=True)
    os.environ["XDG_DATA_HOME"] = str(data)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process for each core, since each imports all files; two on one core, since many tests wait for a program."""
    return max(2, len(os.sched_getaffinity(0)))


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Skip a file that needs an optional package, instead of failing."""
    return OptionalFile.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run long files first: with several processes, a long file at the end would leave the others idle.

    A slow test counts as a hundred others, which is about the time that it takes. A random order (pytest-randomly,
    `make test-anywhere`) stays random.
    """
    if config.pluginmanager.has_plugin("pytest_randomly"):
        return
    length = Counter[Path]()
    for item in items:
        length[item.path] += 100 if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: -length[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the files of tests without collecting garbage, and let no later collection visit what they hold.

    One takes a third of a second then, and each training collects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine seems quiet to this process: tests run beside others, and their results must not depend on those.

    PoCL's launches vary so much beside others that most finals would be measured again, in four times the rounds.
    """
    from seqtune.tuner.fleet import group_search
    from seqtune.tuner.load import Load, LoadMeter
    from seqtune.tuner.measuring.waiting import Waiting
    from seqtune.tuner.run import finals

    for module in (finals, group_search):
        monkeypatch.setattr(module, "are_noisy", lambda measured, options: False)
    monkeypatch.setattr(LoadMeter, "load", lambda meter: Load())
    monkeypatch.setattr(Waiting, "seconds", lambda waiting: 0.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have longer on a slow machine (`SEQTUNE_TEST_SLOWDOWN`)."""
    if SLOWDOWN != 1.0:
        stretch_limits(monkeypatch)


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications in this process have few rounds, whatever their budget.

    A test can then give a budget that no busy machine exceeds: with a short one, what is measured depends on the load.
    """
    from seqtune.tuner.measuring import verification

    monkeypatch.setattr(verification, "BATCHES", 2)
    monkeypatch.setattr(verification, "MOST_ROUNDS", verification.FEWEST_ROUNDS)


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boosted trees that are fitted in this process have few rounds: for tests of commands, not of their answers."""
    from tests.support.learning.few_trees import grow_few_trees

    grow_few_trees(monkeypatch)


@pytest.fixture(autouse=True)
def libraries_as_before() -> Iterator[None]:
    """A library that a test uses is in use for that test alone."""
    from seqtune.kernels.libraries.table import IN_USE
    from seqtune.kernels.operations.table import OPERATIONS
    from seqtune.kernels.problem import forget_names

    before = dict(IN_USE), dict(OPERATIONS)
    yield
    if before != (IN_USE, OPERATIONS):
        for table, entries in ((IN_USE, before[0]), (OPERATIONS, before[1])):
            table.clear()
            table.update(entries)  # type: ignore[arg-type]
        forget_names()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty journal."""
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained translator for llvm devices: its proposals are valid, and of no merit."""
    from tests.support.untrained import save

    return save(tmp_path_factory.mktemp("checkpoint") / "untrained")


@pytest.fixture
def fake_kernel() -> Iterator[None]:
    """Registers `fake.direct` for one test: modules ask for it with `pytest.mark.usefixtures`."""
    from tests.support.synthetic import registered

    with registered():
        yield


@pytest.fixture(scope="session")
def label_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Perf-dbs of two GPUs and a find-db, whose labels follow rules."""
    from tests.support.planted_labels import find_file, perf_files

    folder = tmp_path_factory.mktemp("miopen")
    return [*perf_files(folder), find_file(folder)]


@pytest.fixture(scope="session")
def label_data(label_files: list[Path]) -> Dataset:
    """The data set of those files."""
    from tests.support import label_toys

    return label_toys.read(label_files)


@pytest.fixture(scope="session")
def label_parts(label_data: Dataset) -> Parts:
    """The labels by kernel: to learn from, and to evaluate on."""
    from tests.support import label_toys

    return label_toys.parts(label_data)


@pytest.fixture(scope="session")
def label_checkpoint(label_data: Dataset) -> Path:
    """The folder of a checkpoint that learned from those labels for seconds."""
    pytest.importorskip("torch", reason="PyTorch is not installed: make develop")
    from tests.support import label_toys

    return made_once("labels", lambda folder: label_toys.trained(label_data, folder))
