"""Files of predictions: the output of `seqtune predict --json`, one prediction per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration, is_setting
from seqtune.kernels.problem import Problem

from ..json_content import parse_json

LARGEST_FILE = 100_000_000  # bytes


def read_predictions(path: Path) -> Iterator[tuple[str, Problem, Configuration]]:
    """Read the device's name, the problem and the configuration of every candidate, most promising first.

    Raises FormatError.
    """
    for number, line in enumerate(read_bounded(path, LARGEST_FILE).splitlines(), 1):
        if not line.strip():
            continue
        try:
            prediction = parse_json(line, path)
            problem, device = Problem.from_json(prediction["problem"]), str(prediction["device"])
            for candidate in prediction["candidates"]:
                settings = candidate["configuration"]
                if not all(map(is_setting, settings.values())):
                    raise TypeError
                yield device, problem, Configuration.of(str(candidate["kernel"]), settings)
        except (ValueError, KeyError, TypeError, AttributeError, FormatError):
            raise FormatError(f"{path}:{number}: not a prediction as `seqtune predict --json` prints it") from None
