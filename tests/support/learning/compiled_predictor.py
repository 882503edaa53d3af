"""CompiledPredictor: an exported C predictor, compiled and called through ctypes."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.problem import Problem
from seqtune.predictor.c_source.file import CFile
from seqtune.predictor.c_source.header import MOST_PROPOSALS
from seqtune.predictor.c_source.names import NUMBER_FACTS, RATE_FACTS, WORD_FACTS, identifier

UNKNOWN = -2**63
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")


def compiler() -> str | None:
    """The path of the C compiler `cc`, or of the one that CC names; None if there is none."""
    return shutil.which(os.environ.get("CC") or "cc")


def compile_shared(source: Path, options: Sequence[str]) -> Path:
    """Compile a source in C99 as a shared library beside it."""
    target, found = source.with_suffix(".so"), compiler()
    assert found is not None
    subprocess.run([found, *STRICT, *options, "-shared", "-fPIC", "-o", str(target), str(source), "-lm"], check=True,
                   capture_output=True, text=True)
    return target


_SETTING: tuple[tuple[str, Any], ...] = (
    ("name", ctypes.c_char_p), ("word", ctypes.c_char_p), ("number", ctypes.c_int64))


class CompiledPredictor:
    """The functions of a compiled predictor. `written` is the file that was compiled."""

    def __init__(self, library: Path, written: CFile) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.seqtune_error_text.restype = ctypes.c_char_p
        operations, extras, parameters = written.operations, written.extras, written.parameters
        self._operations, self._extras = operations, extras
        features = {work.name: _structure(f"_{identifier(work.name)}", [
            (identifier(feature.name), ctypes.c_int if feature.choices else
             ctypes.c_double if feature.number else ctypes.c_int64) for feature in work.features])
            for work in operations}
        union = type("_Of", (ctypes.Union,), {
            "_fields_": [(identifier(name), structure) for name, structure in features.items()]})
        self._problem = _structure("_Problem", [("operation", ctypes.c_int), ("of", union)])
        self._device = _structure("_Device", [
            *((name, ctypes.c_char_p) for name in WORD_FACTS),
            *((_field(name), ctypes.c_int64) for name in NUMBER_FACTS),
            *((name, ctypes.c_double) for name in RATE_FACTS),
            *((identifier(name), ctypes.c_int64) for name in extras)])
        setting = _structure("_Setting", [*_SETTING, *([("fraction", ctypes.c_double)] * written.has_fractions)])
        configuration = _structure("_Configuration", [
            ("kernel", ctypes.c_char_p), ("log_probability", ctypes.c_double), ("count", ctypes.c_int),
            ("setting", setting * parameters)])
        self._out = (configuration * MOST_PROPOSALS)()

    def problem(self, problem: Problem) -> Any:
        """The struct of a problem."""
        number = [work.name for work in self._operations].index(problem.type)
        struct = self._problem()
        struct.operation = number
        features = getattr(struct.of, identifier(problem.type))
        by_name = self._operations[number].by_name
        for name, value in problem.features:
            feature = by_name[name]
            if feature.choices:
                raw: float = -1 if value is None else feature.choices.index(str(value))
            elif feature.number:
                raw = math.nan if value is None else float(value)
            else:
                raw = UNKNOWN if value is None else int(value)
            setattr(features, identifier(name), raw)
        return struct

    def device(self, device: Device) -> Any:
        """The struct of a device."""
        struct, extra = self._device(), dict(device.extra)
        for name in WORD_FACTS:
            setattr(struct, name, str(getattr(device, name)).encode())
        for name in NUMBER_FACTS:
            setattr(struct, _field(name), getattr(device, _field(name)))
        for name in RATE_FACTS:
            setattr(struct, name, getattr(device, name))
        for name in self._extras:
            setattr(struct, identifier(name), extra.get(name, UNKNOWN))
        return struct

    def predict(self, problem: Any, device: Any, count: int) -> int:
        """Call the function with structs; the result is the number of configurations or an error."""
        return int(self._library.seqtune_predict(ctypes.byref(problem), ctypes.byref(device), self._out, count))

    def propose(self, problem: Problem, device: Device, count: int) -> list[Configuration]:
        """The best configurations; empty if the function returns an error."""
        found = self.predict(self.problem(problem), self.device(device), count)
        return [_configuration(self._out[row]) for row in range(max(found, 0))]

    def error_text(self, result: int) -> str:
        """The meaning of what `predict` returned."""
        return str(self._library.seqtune_error_text(result), "ascii")

    @property
    def log_probabilities(self) -> list[float]:
        """The log-probabilities of the last proposals."""
        return [row.log_probability for row in self._out]


def _field(name: str) -> str:
    return "vector_bits" if name == "vector_floats" else name


def _structure(name: str, fields: Sequence[tuple[str, Any]]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


def _configuration(row: Any) -> Configuration:
    settings: Mapping[str, Setting] = {setting.name.decode(): _value(setting) for setting in row.setting[:row.count]}
    return Configuration.of(row.kernel.decode(), settings)


def _value(setting: Any) -> Setting:
    if setting.word is not None:
        return str(setting.word.decode())
    whole = int(setting.number)
    fraction = float(getattr(setting, "fraction", whole))
    assert math.trunc(fraction) == whole
    return whole if fraction == whole else fraction


def without_types(configuration: Configuration) -> Configuration:
    """The configuration as C can tell it: 1.0 and true are 1."""
    return Configuration.of(configuration.kernel, {
        name: value if isinstance(value, str) or value != int(value) else int(value)
        for name, value in configuration.settings})


def compiled(written: CFile, folder: Path, *options: str) -> CompiledPredictor:
    """The predictor of a written file, compiled in a folder."""
    source = folder / "predictor.c"
    source.write_text(written.source)
    return CompiledPredictor(compile_shared(source, options), written)
