"""Build and launch a few configurations of one family once: `python -m benchmarks launches --device cuda:0 ...`.

The program that compute-sanitizer watches (`benchmarks.gpu.checks.sanitizer`). It reads problems and configurations as
JSON from standard input, runs each in this process, without timing, and prints one JSON line for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common.program import OneLineParser
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import Backend, BuildError, LaunchError, open_backend
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.timing import check, prepare

LARGEST_INPUT = 1 << 20  # characters


def launch(backend: Backend, work: dict[str, Any]) -> dict[str, object]:
    """Build one configuration, run it once and compare its result."""
    problem = Problem.from_json(work["problem"])
    configuration = Configuration.of(work["kernel"], work["configuration"])
    operands, expected = prepare(problem)
    try:
        executable = backend.build(problem, kernel(configuration.kernel), configuration)
        try:
            measurement, _ = check(executable, operands, expected)
        finally:
            executable.close()
    except (BuildError, LaunchError) as error:
        return {"status": "failed", "message": str(error)[:300]}
    return {"status": measurement.status.value, "message": measurement.message, "error": measurement.error}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--device", required=True)
    given = parser.parse_args(arguments)
    backend = open_backend(find(given.device))
    try:
        for work in json.loads(sys.stdin.read(LARGEST_INPUT)):
            print(json.dumps(launch(backend, work)), flush=True)
    finally:
        backend.close()
