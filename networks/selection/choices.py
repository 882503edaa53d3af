"""Choice: the configuration that computes one layer of an optimised model, and SavedChoices: the JSON file of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.errors import DeviceError, FormatError, MisuseError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path, read_bounded, write_whole
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.discovery import find

from ..nodes import Shape

SCHEMA = 1
Verdicts = Sequence[dict[str, Any] | None]  # on each compiled network, as JSON; None: not compared
MOST_BYTES = 4_000_000  # maximum size of a file; enough for thousands of layers


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice for one layer. `configuration` is None where PyTorch's operation computes the layer."""

    problem: Problem
    configuration: Configuration | None

    def to_json(self) -> dict[str, Any]:
        """The problem and the configuration with the version of its kernel, as JSON values."""
        configuration = self.configuration
        return {"problem": self.problem.to_json(),
                "kernel": None if configuration is None else configuration.kernel,
                "version": None if configuration is None else kernel(configuration.kernel).version,
                "configuration": None if configuration is None else dict(configuration.settings)}


def write_choices(path: str | Path, device: Device, choices: Sequence[Choice], precision: str = "fp32",
                  verdicts: Verdicts = (), inputs: Sequence[Shape] = ()) -> None:
    """Write the file that `SavedChoices` reads; `inputs` are shapes. Raises SeqtuneError where that fails."""
    check_path("path", path or "")
    layers = [choice.to_json() for choice in choices]
    content = {"seqtune": SCHEMA, "device": device.key, "machine": device.fingerprint, "precision": precision,
               "inputs": [list(shape) for shape in inputs], "layers": layers, "networks": list(verdicts)}
    write_whole(Path(path), json.dumps(content, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class SavedChoices:
    """The JSON object of a file of choices, with its lists; the rest is checked on a device."""

    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> SavedChoices:
        """Read a file that `write_choices` wrote. Raises FormatError."""
        text = read_bounded(path, MOST_BYTES)
        try:
            content: dict[str, Any] = {"networks": [], **json.loads(text)}
            lists = all(isinstance(content[name], list) for name in ("layers", "networks"))
            if lists and {"seqtune", "device"} <= content.keys():
                return cls(path, content)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise FormatError(f"{path} is not a saved choice of an optimised model")

    def device(self) -> Device | None:
        """The local llvm device with the name in the file, or None."""
        name = str(self.content["device"]).partition(" ")[0]
        try:
            return find(name) if name.startswith("llvm:") else None
        except DeviceError:
            return None

    def on(self, device: Device, precision: str = "fp32") -> tuple[list[Choice], list[Any]]:
        """The choices, and the verdicts on the networks as JSON values, which are not checked.

        Raises FormatError for another device, machine, version or precision, and malformed choices. Files without a
        `machine` (of earlier versions) are accepted on every machine of the device's name; without a `precision`, they
        are of fp32; without `networks`, there are no verdicts.
        """
        path, saved = self.path, self.content
        schema, key, layers, verdicts = saved["seqtune"], str(saved["device"]), saved["layers"], saved["networks"]
        machine, known = saved.get("machine", device.fingerprint), saved.get("precision", "fp32")
        if schema != SCHEMA:
            raise FormatError(f"{path} is of schema {schema!r:.20}; this seqtune reads {SCHEMA}")
        if key != device.key:
            raise FormatError(f"{path} was saved on {one_line(key, 100)}; this is {device.key}: "
                              "optimise the model here, or choose that device if this machine has it")
        if machine != device.fingerprint:
            raise FormatError(f"{path} was saved on a machine with other caches ({one_line(str(machine), 60)}); "
                              f"this one has {device.fingerprint}: optimise the model here")
        if known != precision:
            raise FormatError(f"{path} was saved with precision={known!r:.20}; this model is optimised in {precision}")
        try:
            return [choice_of_json(layer, device) for layer in layers], verdicts
        except MisuseError as error:
            raise FormatError(f"{path}: {one_line(error)}") from None

    def choices_of(self, choices: Sequence[Choice], problems: Sequence[Problem],
                   inputs: Sequence[Shape]) -> list[Choice]:
        """The saved choice of each problem of a model with such inputs. Raises FormatError where one is missing."""
        by_problem = {choice.problem: choice for choice in choices}
        for problem in problems:
            if problem not in by_problem:
                raise self.misfit(inputs, f"it has no {problem.brief()}")
        return [by_problem[problem] for problem in problems]

    def misfit(self, inputs: Sequence[Shape], reason: str) -> FormatError:
        """The error for a model with inputs of these shapes, which the saved layers do not fit for this reason.

        Files of earlier versions do not tell for which shapes they were saved.
        """
        saved = self.content.get("inputs")
        if not saved:
            return FormatError(f"{self.path} was saved for another model or other input shapes: {reason}")
        if saved == [list(shape) for shape in inputs]:
            return FormatError(f"{self.path} was saved for another model: {reason}")
        known, given = one_line(str(saved)[1:-1], 100), ", ".join(map(str, map(list, inputs)))
        return FormatError(f"{self.path} was saved for other input shapes, {known}; these are {given} ({reason}): "
                           "optimise the model for them and save that choice, too")


def choice_of_json(layer: Any, device: Device) -> Choice:
    """The inverse of `Choice.to_json`. Raises MisuseError for what is no choice on the device."""
    try:
        problem, name = Problem.from_json(layer["problem"]), layer["kernel"]
        if name is None:
            if layer["version"] is not None or layer["configuration"] is not None:
                raise ValueError
            return Choice(problem, None)
        family, version = kernel(str(name)), layer["version"]
        given = Configuration.of(family.name, layer["configuration"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FormatError("not a saved choice of an optimised model") from None
    if version != family.version:
        raise FormatError(f"it was saved with version {version!r:.20} of {family.name}, which is {family.version} now: "
                          "optimise the model again")
    SearchSpace(family, problem, device).row(given)  # refuses what is not in it
    return Choice(problem, given)
