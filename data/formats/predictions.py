"""Files of predictions: the output of `seqtune predict --json`, one prediction per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

LARGEST_FILE = 100_000_000  # bytes


def read_predictions(path: Path) -> Iterator[tuple[str, Problem, Configuration]]:
    """Read the device's name, the problem and the configuration of every candidate, most promising first.

    Raises FormatError.
    """
    text = read_bounded(path, LARGEST_FILE).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            prediction = json.loads(line)
            problem, device = Problem.from_json(prediction["problem"]), str(prediction["device"])
            for candidate in prediction["candidates"]:
                settings = candidate["configuration"]
                if not all(isinstance(value, int | str) for value in settings.values()):
                    raise TypeError
                yield device, problem, Configuration.of(str(candidate["kernel"]), settings)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError(f"{path}:{number}: not a prediction as `seqtune predict --json` prints it") from None
