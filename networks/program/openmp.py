"""OpenMP: runs compiled phases on the OpenMP threads that a library in this process already has, such as PyTorch's.

A second pool on the same cores would compete with that library's: OpenMP threads spin for milliseconds after each of
their loops, and a thread of the second pool that is woken meanwhile waits for the scheduler. A shared pool avoids this.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import UnavailableError
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import SHARE

RUNTIMES = ("libgomp", "libomp", "libiomp5")  # the last two also export GNU's entry points

_TEXT = """
{share}
define internal void @region(ptr %data) nounwind {{
entry:
  %jobs = load ptr, ptr %data
  %last_p = getelementptr i64, ptr %data, i64 1
  %last = load i64, ptr %last_p
  %shares_p = getelementptr i64, ptr %data, i64 2
  %shares = load i64, ptr %shares_p
  %index0 = call i32 inttoptr (i64 {index} to ptr)()
  %count0 = call i32 inttoptr (i64 {count} to ptr)()
  %index = zext i32 %index0 to i64
  %count = zext i32 %count0 to i64
  br label %each
each:
  %j = phi i64 [ 0, %entry ], [ %j1, %next ]
  %job_p = getelementptr ptr, ptr %jobs, i64 %j
  %job = load ptr, ptr %job_p
  %phases_p = getelementptr i64, ptr %job, i64 6
  %phases = load i64, ptr %phases_p
  br label %phase
phase:
  %i = phi i64 [ 0, %each ], [ %i1, %wait ]
  br label %part
part:
  %s = phi i64 [ %index, %phase ], [ %s1, %part ]
  call void @share(ptr %job, i64 %i, i64 %s, i64 %shares)
  %s1 = add i64 %s, %count
  %lacking = icmp ult i64 %s1, %shares
  br i1 %lacking, label %part, label %wait
wait:
  call void inttoptr (i64 {barrier} to ptr)()
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %phases
  br i1 %more, label %phase, label %next
next:
  %j1 = add i64 %j, 1
  %jobs_left = icmp ult i64 %j1, %last
  br i1 %jobs_left, label %each, label %out
out:
  ret void
}}

define void @launch(ptr %jobs, i64 %number, i32 %threads) nounwind {{
  %data = alloca [3 x i64], align 8
  store ptr %jobs, ptr %data
  %number_p = getelementptr i64, ptr %data, i64 1
  store i64 %number, ptr %number_p
  %shares = zext i32 %threads to i64
  %shares_p = getelementptr i64, ptr %data, i64 2
  store i64 %shares, ptr %shares_p
  call void inttoptr (i64 {parallel} to ptr)(ptr @region, ptr %data, i32 %threads, i32 0)
  ret void
}}
"""


def loaded_runtime(near: Path, maps: Path = Path("/proc/self/maps")) -> Path | None:
    """The path of the OpenMP runtime of the package in the folder `near`, else of the only one loaded, else None."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return None
    near = near.resolve()  # the maps name files without links, which a folder of packages may be behind
    paths = dict.fromkeys(Path(line.split(None, 5)[5]) for line in lines if line.count("/"))
    runtimes = [path for path in paths if path.name.startswith(RUNTIMES)]
    own = [path for path in runtimes if near in path.parents or path.parent == near.with_name(f"{near.name}.libs")]
    return next(iter(own or (runtimes if len(runtimes) == 1 else [])), None)


class OpenMP:
    """A pool of `count` threads of an OpenMP runtime. Any thread may call it, one at a time.

    Where the runtime gives fewer threads (a limit, or a parallel region around this one), each takes several shares.
    A process that was forked from one that has run jobs has none of its threads: there the calling thread runs all.
    Raises UnavailableError if the library is not an OpenMP runtime.
    """

    _process = 0  # the first process that ran jobs, this one or one that it was forked from

    def __init__(self, compiler: Compiler, count: int, runtime: Path) -> None:
        try:
            library = ctypes.CDLL(str(runtime))
            index, number, parallel, barrier = (
                ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                for name in ("omp_get_thread_num", "omp_get_num_threads", "GOMP_parallel", "GOMP_barrier"))
        except (OSError, AttributeError) as error:
            raise UnavailableError(f"{runtime} is not an OpenMP runtime: {error}") from None
        self.count = count
        self._library = library
        self._module, _ = compiler.build(
            _TEXT.format(share=SHARE, index=index, count=number, parallel=parallel, barrier=barrier), kept=False)
        self._launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int)(
            self._module.address("launch"))
        self._job = np.zeros(1, np.int64)
        self._job_address = int(self._job.ctypes.data)

    def run(self, job: int) -> None:
        """Run the job at this address (see `threads.make_job`) and wait until it has finished."""
        self._job[0] = job
        self._launch(self._job_address, 1, self._threads())

    def run_all(self, jobs: NDArray[np.int64]) -> None:
        """Run the jobs at these addresses, one after the other, in one parallel region."""
        self._launch(jobs.ctypes.data, len(jobs), self._threads())

    def _threads(self) -> int:
        process = os.getpid()
        if not OpenMP._process:
            OpenMP._process = process
        return self.count if OpenMP._process == process else 1
