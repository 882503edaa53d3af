"""Recipe: a data set and the options of a training in a JSON file, so that one command makes the same checkpoint again.

The keys are `data` ("shipped", a path from the file's folder, or null where the user names the data set), `options`,
whose keys are the fields of `TrainingOptions` without those of a single run, and `about`, a text for readers. Options
that are left out have their defaults. The recipe of a shipped checkpoint stands beside its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model, model_validator
from pydantic_core import PydanticCustomError

from seqtune.data.formats.dataset_file import is_shipped
from seqtune.errors import FormatError, MisuseError, one_line
from seqtune.kernels.files import read_bounded

from ..checkpoint_folder import SHIPPED
from ..training.options import TrainingOptions
from ..trees.cost_trees import TreesOptions

ENDING = ".recipe.json"  # of the file beside a shipped checkpoint
LARGEST = 100_000  # bytes
OF_A_RUN = ("state", "end_now")  # fields of TrainingOptions that belong to a single run
# Options of earlier versions, by the class of options: they are constants now, and may be named with these values alone
SETTLED: Mapping[type, Mapping[str, float]] = {
    TrainingOptions: {"weight_decay": 0.05, "clip": 1.0, "explore": 0.25, "measured": 0.65, "trust": 1.0},
    TreesOptions: {"subsample": 0.8, "columns": 0.6, "focus": 1.0, "worst": 2.5, "jitter": 0.07},
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe: `name` is that of its file, without the folder; `data` is None for the shipped data set.

    A recipe that `needs_data` has none of its own: `about` says how to make it.
    """

    name: str
    data: Path | None
    options: TrainingOptions = field(default_factory=TrainingOptions)
    needs_data: bool = False
    about: str = ""

    @classmethod
    def read(cls, name: str | Path) -> Recipe:
        """Read a recipe, given by path or by the name of a shipped checkpoint. Raises FormatError."""
        shipped = SHIPPED / f"{name}{ENDING}"
        path = shipped if Path(name).name == str(name) and shipped.is_file() else Path(name)
        try:
            content: Any = _document().model_validate_json(read_bounded(path, LARGEST))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise FormatError(f"{path} is no recipe: {where + ': ' if where else ''}{one_line(first['msg'], 200)}"
                              ) from None
        return cls(path.name, None if is_shipped(content.data) else path.parent / content.data,
                   _as_options(content.options), content.data is None, content.about)

    def data_set(self, named: str | Path | None) -> str | Path | None:
        """The data set of the training (None: the shipped one), of which the user has `named` one or none.

        Raises MisuseError if both or neither of user and recipe name one.
        """
        if self.needs_data:
            if named is None:
                raise MisuseError(f"{self.name} has no data set of its own; name one (DATA). "
                                  f"{one_line(self.about, 400)}")
            return named
        if named is not None:
            raise MisuseError("a recipe gives the data set and all options: leave out the others")
        return self.data


def options_from(content: Any) -> TrainingOptions:
    """The options that a checkpoint's provenance has (`describe`). Raises FormatError."""
    try:
        without_run = {name: value for name, value in dict(content).items() if name not in OF_A_RUN}
        return _as_options(_model_of(TrainingOptions).model_validate(without_run))
    except (TypeError, ValueError) as error:
        raise FormatError(f"not the options of a training: {one_line(error, 200)}") from None


def _as_options(model: BaseModel) -> TrainingOptions:
    options = _as(TrainingOptions, model)
    assert isinstance(options, TrainingOptions)
    return options


@cache
def _document() -> type[BaseModel]:
    return create_model("Recipe", __config__=ConfigDict(extra="forbid", strict=True), about=(str, ""),
                        data=(str | None, ...), options=(_model_of(TrainingOptions), ...))


def _model_of(kind: type) -> type[BaseModel]:
    """A model with the fields of a dataclass of options, and of the dataclasses in it; it refuses other keys."""
    hints, wanted = get_type_hints(kind, include_extras=True), dict[str, Any]()
    for entry in fields(kind):
        if entry.name not in OF_A_RUN:
            assert entry.default is not MISSING  # every option has a default
            hint = hints[entry.name]
            if is_dataclass(hint):
                assert isinstance(hint, type)
                model = _model_of(hint)
                wanted[entry.name] = (model, model())
            else:
                wanted[entry.name] = (hint, entry.default)
    validators: Any = {"unsettled": model_validator(mode="before")(partial(_unsettled, kind))}
    return create_model(kind.__name__, __config__=ConfigDict(extra="forbid", strict=True), __validators__=validators,
                        **wanted)


def _unsettled(kind: type, given: object) -> object:
    """The options that were given for a class of options, without SETTLED ones, which must have their value."""
    settled = SETTLED.get(kind, {})
    if not isinstance(given, dict):
        return given
    for name in settled.keys() & given.keys():
        if given[name] != settled[name]:
            raise PydanticCustomError("settled", "{name} is always {value} in this version; leave it out",
                                      {"name": name, "value": settled[name]})
    return {name: value for name, value in given.items() if name not in settled}


def _as(kind: type[Any], model: BaseModel) -> Any:
    """The dataclass with a model's values."""
    hints = get_type_hints(kind)
    return kind(**{name: _as(hints[name], value) if isinstance(value, BaseModel) else value for name, value in model})
