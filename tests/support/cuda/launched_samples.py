"""A program that compute-sanitizer watches: it builds random configurations of one family and launches each once.

The words are the device, the family and the number of configurations. It prints the status of each.
"""

from __future__ import annotations

import sys

from seqtune.kernels.problem_sets.random_configurations import random_configurations
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import BuildError, LaunchError, open_backend
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.timing import check, prepare


def main(device_name: str, family_name: str, count: int) -> None:
    device, family = find(device_name), kernel(family_name)
    backend = open_backend(device)
    try:
        for problem, configuration in random_configurations(family, device, count, seed=1):
            try:
                executable = backend.build(problem, family, configuration)
                try:
                    measurement, _ = check(executable, *prepare(problem))
                finally:
                    executable.close()
                print(f"status {measurement.status.value}", flush=True)
            except (BuildError, LaunchError) as error:
                print(f"status failed {problem.brief()} {configuration.brief()}: {error}", flush=True)
    finally:
        backend.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
