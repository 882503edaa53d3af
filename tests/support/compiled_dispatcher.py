"""CompiledDispatcher: a dispatcher's C file, compiled and called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.predictor.c_source.names import identifier
from seqtune.predictor.dispatch.c_file import RACED, c_file
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from tests.support.learning.compiled_predictor import compile_shared


class _Choice(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int) for name in ("member", "second", "sure", "in_domain"))


class CompiledDispatcher:
    """The functions of the file, which is compiled in `folder`."""

    def __init__(self, dispatcher: Dispatcher, folder: Path, options: Sequence[str] = ("-O2",)) -> None:
        self.header, self.source = c_file(dispatcher, "some_kernels")
        (folder / "some_kernels.h").write_text(self.header)
        (folder / "some_kernels.c").write_text(self.source)
        library = ctypes.CDLL(str(compile_shared(folder / "some_kernels.c", options)))
        self._features = dispatcher.domain.varying
        fields: list[tuple[str, Any]] = [
            (identifier(feature.name), ctypes.c_int if feature.choices else ctypes.c_double if feature.number
             else ctypes.c_int64) for feature in self._features] or [("none", ctypes.c_int)]
        shape: Any = type("_Shape", (ctypes.Structure,), {"_fields_": fields})
        self._races = type("_Races", (ctypes.Structure,), {"_fields_": [
            ("count", ctypes.c_int), ("member", ctypes.c_int * RACED), ("shape", shape * RACED)]})()
        self.shape = shape
        self._choose, self._race = library.some_kernels_choose, library.some_kernels_race
        self._choose.restype = _Choice

    def choose(self, values: Mapping[str, Any]) -> tuple[int, int, int, int]:
        """The answer for a shape, given by the features that vary: member, second, sure, in_domain."""
        choice = self._choose(ctypes.byref(self._shape(values)))
        return choice.member, choice.second, choice.sure, choice.in_domain

    def choose_many(self, columns: ProblemColumns) -> NDArray[np.int64]:
        """The answers for problems: (shape, 4)."""
        lists = {feature.name: columns.values[feature.name].tolist() for feature in self._features}
        return np.array([self.choose(dict(zip(lists, row, strict=True)))
                         for row in zip(*lists.values(), strict=True)], np.int64)

    def race(self, values: Mapping[str, Any], seconds: Callable[[int], float]) -> int:
        """The winner of a race, in which a member takes these seconds."""
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        result: int = self._race(ctypes.byref(self._races), ctypes.byref(self._shape(values)),
                                 kind(lambda context, member, shape: seconds(member)), None)
        return result

    def _shape(self, values: Mapping[str, Any]) -> Any:
        return self.shape(*[feature.choices.index(values[feature.name]) if feature.choices else values[feature.name]
                            for feature in self._features])
