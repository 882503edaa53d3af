"""CProcesses: the Gaussian processes of kernels with few measurements in C; they read the features of the trees.

Each measured row is a string of digits in base 92: two of its task, and five of each coordinate and of its weight, so
that nothing is rounded. `runtime/processes.c` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..experts.process import LARGEST_FEATURE, Process, Processes
from ..trees.ranker import Ranker
from .library import CLibrary
from .weights import bits, digits, floats, string_literal, whole_numbers

MOST_NUMBERS = 200_000  # of all rows of a file: 1 MB


def processes_in_c(processes: Processes | None, ranker: Ranker | None) -> Processes | None:
    """The processes that C can hold: those of kernels whose trees are in C too, if they are small enough."""
    known = {name: process for name, process in (processes.by_kernel if processes else {}).items()
             if ranker is not None and ranker.listed == "ratios" and name in ranker.forests}
    fit = sum(process.rows.size for process in known.values()) <= MOST_NUMBERS
    return Processes(known) if known and fit else None


@dataclass
class CProcesses:
    """The declarations of processes, and the sizes that C code needs as constants."""

    lines: list[str] = field(default_factory=list)
    coordinates: int = 1  # of the process that has most

    @classmethod
    def of(cls, processes: Processes, library: CLibrary) -> CProcesses:
        """Write processes that C can hold; there is no line if there are none."""
        written = cls()
        entries = [written._process(kernel.number, processes.by_kernel[kernel.kernel.name])
                   if kernel.kernel.name in processes.by_kernel else "{0}" for kernel in library.kernels]
        if written.lines:
            written.lines.append("static const sq_process sq_processes[] = {\n    " + ",\n    ".join(entries) + "\n};")
        return written

    @property
    def sizes(self) -> dict[str, int | str]:
        """The sizes that C code needs as constants, by their names without the prefix."""
        return {"PROCESSES": int(bool(self.lines)), "COORDINATES": self.coordinates,
                "LARGEST_FEATURE": repr(LARGEST_FEATURE)}

    def _process(self, number: int, process: Process) -> str:
        """Declare the arrays of a process; the result is its initial value."""
        own, of_task = process.rows.shape[1], process.tasks.shape[1]
        self.coordinates = max(self.coordinates, own + of_task)
        points = np.column_stack([process.rows, process.weights])
        written = [string_literal(np.concatenate([digits(np.array([task], np.int64), 2).ravel(),
                                                  digits(bits(point), 5).ravel()]))
                   for task, point in zip(process.owner.tolist(), points, strict=True)]
        self.lines += [
            whole_numbers("int", f"sq_read_features_{number}", process.columns.tolist()),
            floats(f"sq_centre_{number}", process.centre), floats(f"sq_stretch_{number}", process.scale),
            floats(f"sq_task_points_{number}", process.tasks if of_task else np.zeros(1, np.float32)),
            f"static const char *const sq_measured_{number}[] = {{\n" + ",\n".join([*written, "0"]) + "\n};"]
        return (f"{{{own}, {own + of_task}, {', '.join(map(repr, process.constants.tolist()))}, "
                + ", ".join(f"sq_{part}_{number}" for part in (
                    "read_features", "centre", "stretch", "task_points", "measured")) + "}")
