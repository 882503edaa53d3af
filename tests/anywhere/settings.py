"""Settings: what differs between the machines on which the suite must pass, and the runs that combine them.

Settings of one run do not touch each other, so that a failure shows its setting: digits point to a BLAS kernel, a path
to spaces, a missing fixture to the order. `--apart` gives each setting a run of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_SLOW = ("-m", "not slow")


@dataclass(frozen=True, slots=True)
class Setting:
    """One difference. `reason` is printed by --list."""

    name: str
    reason: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()  # of pytest
    flags: frozenset[str] = frozenset()  # of /proc/cpuinfo, which the CPU must have
    cores: int | None = None
    busy: int = 0  # processes that compute beside the run
    copied: str | None = None  # the name of the folder of a copy of the sources, in which the run takes place
    namespace: str | None = None  # shell commands in a mount namespace of the run's own; see `namespaces.py`
    other_user: bool = False


def _blas(name: str, *flags: str) -> Setting:
    return Setting(name.lower(), f"NumPy multiplies with OpenBLAS's kernels for {name}", {"OPENBLAS_CORETYPE": name},
                   flags=frozenset(flags))


def _order(seed: int) -> Setting:
    return Setting(f"order-{seed}", "no test needs the traces of another", arguments=(
        "-p", "pytest_randomly", "--randomly-seed", str(seed)))


SETTINGS = {setting.name: setting for setting in (
    _blas("Prescott", "pni"),
    _blas("Nehalem", "sse4_2"),
    _blas("Sandybridge", "avx"),
    _blas("Haswell", "avx2", "fma"),
    _blas("Zen", "avx2", "fma"),
    _blas("SkylakeX", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    _blas("Cooperlake", "avx512f", "avx512_bf16"),
    _blas("SapphireRapids", "avx512f", "avx512_bf16", "amx_tile"),
    Setting("aten-default", "PyTorch computes without AVX", {"ATEN_CPU_CAPABILITY": "default"}),
    Setting("aten-avx2", "PyTorch computes with AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}, flags=frozenset({"avx2"})),
    Setting("numpy-baseline", "NumPy's own loops use no more than its baseline", {"NPY_DISABLE_CPU_FEATURES": "*"}),
    Setting("optimised", "PoCL optimises, as it does for users", {"PYOPENCL_BUILD_OPTIONS": ""}),
    Setting("one-core", "a container may give one core, and devices have one thread", cores=1),
    Setting("busy", "two other processes compute: no test depends on timing", busy=2),
    Setting("not-root", "users are not root, and root may read and write what others may not", copied="seqtune",
            other_user=True),
    Setting("spaces", "folder, home and temporary folder have spaces in their names", copied="a copy of seqtune"),
    *map(_order, (1, 2, 3)),
    Setting("no-pocl", "pip's PoCL does not load everywhere", namespace="no_pocl"),
    Setting("no-shm", "some containers have no /dev/shm", namespace="no_shm"),
    Setting("no-torch", "predicting needs no PyTorch", {"SEQTUNE_TEST_ABSENT": "torch,torchgen,functorch"}),
)}

# The whole suite, with the tests marked `anywhere`, runs with AVX2's BLAS kernels, which most machines use, and with
# optimised OpenCL; everything else leaves out what is slow.
WHOLE = ("haswell", "optimised")
RUNS: tuple[tuple[str, ...], ...] = (
    WHOLE,
    ("prescott", "aten-default", "order-1"),
    ("nehalem", "numpy-baseline", "spaces"),
    ("sandybridge", "aten-avx2", "order-2"),
    ("zen", "no-shm"),
    ("skylakex", "order-3"),
    ("cooperlake", "not-root"),
    ("sapphirerapids",),
    ("one-core",),
    ("busy",),
    ("no-pocl",),
    ("no-torch",),
)
