"""Reports in tests: a small journal whose figures are computed by hand, and what a page holds."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support import records

DEVICE = Device("llvm:avx2:2", "llvm", "znver9", "avx2", model="a CPU", threads=2, compute_units=2, vector_bits=256,
                l1_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 25, toolchain="of a test")
PROBLEM = Problem.make("gemm", m=32, n=32, k=16)
HOSTILE = "</script><img src=x onerror=alert(1)>"


def gemm() -> Kernel:
    """The kernel family of the journal's records."""
    return kernel("llvm.gemm")


def configurations(count: int, problem: Problem = PROBLEM, seed: int = 0) -> list[Configuration]:
    """The safe default first, then others of the space."""
    space = SearchSpace(gemm(), problem, DEVICE)
    drawn = space.sample(np.random.default_rng(seed), count + 1)
    return [space.default, *(each for each in drawn if each != space.default)][:count]


def record(configuration: Configuration, seconds: float | None, when: float, *, problem: Problem = PROBLEM,
           message: str = "", run: str = "random", machine: str = DEVICE.fingerprint, version: int | None = None,
           status: Status = Status.COMPILE) -> Record:
    """A record of so many seconds; a failure with the status where they are None."""
    measurement = Measurement(Status.CORRECT, (seconds,)) if seconds else Measurement(status, message=message)
    return Record(problem, DEVICE.key, gemm().version if version is None else version, configuration, DEVICE.toolchain,
                  measurement, when, run, "a-host", machine)


write_journal = partial(records.write_journal, device=DEVICE)


def content(path: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The facts and the columns of a page."""
    found = re.search(r'<script type="application/octet-stream" id="payload">([A-Za-z0-9+/=]+)</script>',
                      path.read_text())
    assert found
    unpacked = zlib.decompress(base64.b64decode(found[1]))
    begin = 4 + struct.unpack_from("<I", unpacked)[0]
    facts = json.loads(unpacked[4:begin])
    columns = {}
    for name, size, count in facts["columns"]:
        planes = np.frombuffer(unpacked, np.uint8, size * count, begin).reshape(size, count).astype(np.int64)
        columns[name] = (planes * 256 ** np.arange(size)[:, None]).sum(axis=0).tolist()
        begin += size * count
    assert begin == len(unpacked)
    return facts, columns
