"""CheckpointFolder: the format of a checkpoint's folder.

A folder is found by path or by name, and written as a whole or not at all. Its content is not trusted: only JSON and
safetensors are read, sizes are bounded, and every tensor's shape is compared with the configuration before a tensor is
loaded. This module does not import torch. Raises CheckpointError.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from safetensors import SafetensorError, safe_open

from seqtune.errors import CheckpointError
from seqtune.kernels.files import cannot_write
from seqtune.kernels.own_folders import data_folder
from seqtune.tuner.cost_models.features import FeatureList

from .confidence.model import ConfidenceModel
from .experts.process import ProcessFields
from .labels import LabelsAbout
from .largest import NONE_LEARNED, Largest
from .sequence.declaration import Declaration
from .sequence.numeric_codes import codes
from .sequence.vocabulary import MAX_WORDS, Vocabulary
from .translator.numpy_layers import Dimensions

MODEL_TYPE = "seqtune-translator"
SHIPPED = Path(__file__).parent / "checkpoints"
MAX_DERIVED = 10_000  # number of derived quantities
LARGEST_JSON = 50_000_000  # bytes
LARGEST_WEIGHTS = 2_000_000_000  # bytes
FORMER = "former"  # subfolder of a retrained checkpoint: the checkpoint that answers for all other devices
MOST_LAYERS = 8  # checkpoints in one another; all are in memory

_Model = TypeVar("_Model", bound=BaseModel)


class Config(BaseModel):
    """The fields of config.json; other fields, which transformers adds, are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    names: int = Field(ge=2, le=MAX_WORDS)
    words: int = Field(ge=2, le=MAX_WORDS)
    targets: int = Field(ge=2, le=MAX_WORDS)
    groups: int = Field(ge=2, le=MAX_WORDS)
    derived: int = Field(ge=0, le=MAX_DERIVED)
    longest: int = Field(ge=1, le=1000)
    code: int = Field(ge=1, le=10_000)
    quantities: int = Field(ge=0, le=10_000)  # 0: target words are fixed
    width: int = Field(ge=1, le=8192)
    layers: int = Field(ge=1, le=100)
    decoder_layers: int = Field(default=0, ge=0, le=100)  # older checkpoints have as many as in the encoder
    heads: int = Field(ge=1, le=128)
    hidden: int = Field(ge=1, le=32768)
    dropout: float = Field(ge=0, lt=1)
    word_dropout: float = Field(ge=0, lt=1)
    number_dropout: float = Field(ge=0, lt=1)
    judge: int = Field(default=0, ge=0, le=4096)  # checkpoints before the judge have none
    facts: int = Field(default=0, ge=0, le=1000)


class _Kind(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    model_type: str = Field(default=MODEL_TYPE, max_length=100)


class WordLists(BaseModel):
    """The words of a vocabulary."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    names: tuple[str, ...] = Field(max_length=MAX_WORDS)
    words: tuple[str, ...] = Field(max_length=MAX_WORDS)
    targets: tuple[str, ...] = Field(max_length=MAX_WORDS)
    derived: tuple[str, ...] = Field(max_length=MAX_DERIVED)


class About(BaseModel):
    """The fields of seqtune.json."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    format: Literal[1]
    vocabulary: WordLists
    kernels: tuple[Declaration, ...] = Field(max_length=10_000)
    sha256: dict[str, str] = Field(default={}, max_length=10)  # by file name; empty in older checkpoints
    provenance: dict[str, JsonValue]
    metrics: dict[str, JsonValue]
    seed: int
    trees: dict[str, tuple[Annotated[int, Field(ge=1, le=256)], Annotated[int, Field(ge=1, le=100)]]] = Field(
        default={}, max_length=10_000)
    tree_features: FeatureList = "facts"  # checkpoints without the field were trained with the facts of devices
    processes: tuple[ProcessFields, ...] = Field(default=(), max_length=10_000)
    estimator: ConfidenceModel | None = None  # of the plain mean's answers
    largest: Largest = NONE_LEARNED
    retrained_for: tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...] = Field(
        default=(), max_length=1000)  # keys of devices; if there are any, the folder has a former checkpoint
    choices: LabelsAbout | None = None  # of a translator that has learned another tool's labels; files name them so
    confidence: JsonValue = Field(default=None, exclude=True)  # earlier versions: of the answers of a mixture
    mixture: JsonValue = Field(default=None, exclude=True)  # earlier versions


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder with config.json, seqtune.json and model.safetensors; the JSON files are already read and checked."""

    path: Path
    about: About
    vocabulary: Vocabulary
    size: Dimensions

    @classmethod
    def open(cls, name: str | Path) -> CheckpointFolder:
        """Open a checkpoint, given by path or name. Raises CheckpointError."""
        path = find(name)
        kind = read_json(path / "config.json", _Kind).model_type
        if kind != MODEL_TYPE:
            raise CheckpointError(f"{path} holds a model of type {kind!r:.60}; those of seqtune are {MODEL_TYPE}")
        about = read_json(path / "seqtune.json", About)
        vocabulary = _make_vocabulary(about.vocabulary, about.kernels, path / "seqtune.json")
        size = Dimensions(**read_json(path / "config.json", Config).model_dump())
        _check_size(path, size, vocabulary)
        return CheckpointFolder(path, about, vocabulary, size)

    @property
    def weights(self) -> Path:
        """The path of the file of tensors."""
        return self.path / "model.safetensors"

    def tensors(self, wanted: Mapping[str, tuple[list[int], str]]) -> dict[str, NDArray[Any]]:
        """Read the weights.

        Raises CheckpointError if their names, shapes and types are not exactly `wanted`, or if a file has changed since
        it was written.
        """
        tensors = read_tensors(self.weights, wanted)
        check_digests(self.path, self.about.sha256)
        return tensors

    @staticmethod
    @contextmanager
    def writing(path: str | Path, config: Mapping[str, Any], about: About) -> Iterator[Path]:
        """Yield a new folder that contains config.json; the caller writes the other files into it.

        Then a seqtune.json with the files' digests is added and the folder is renamed to `path`. After an error `path`
        is as before. Raises CheckpointError.
        """
        with replacing_folder(Path(path)) as fresh:
            (fresh / "config.json").write_text(json.dumps(config, indent=1) + "\n")
            yield fresh
            sealed = about.model_copy(update={"sha256": digests(fresh)})
            (fresh / "seqtune.json").write_text(sealed.model_dump_json(indent=1) + "\n")


def facts(vocabulary: Vocabulary, provenance: Mapping[str, JsonValue], metrics: Mapping[str, JsonValue],
          seed: int) -> dict[str, Any]:
    """The values of the fields of `About` for a vocabulary and a training."""
    words = WordLists(names=vocabulary.names, words=vocabulary.words, targets=vocabulary.targets,
                      derived=vocabulary.derived)
    return {"format": 1, "vocabulary": words, "kernels": vocabulary.kernels, "provenance": dict(provenance),
            "metrics": dict(metrics), "seed": seed}


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to write a checkpoint into, then rename it to `path`.

    A reader sees the old checkpoint or the new one, never a part. Between the two renames `path` is absent for an
    instant, and the old checkpoint is in the same parent folder with a name that ends in `.old`. A folder that is not a
    checkpoint is not overwritten. Write tensors as bytes: files written by safetensors' `save_file` can be read only by
    their owner. Raises CheckpointError, and what `cannot_write` makes of an OSError.
    """
    if path.exists() and not (path / "seqtune.json").is_file() and (not path.is_dir() or any(path.iterdir())):
        raise CheckpointError(f"{path} exists and is no checkpoint; remove it or choose another folder")
    fresh = path.parent / f".{path.name[:40]}.{uuid.uuid4().hex}"  # a name has at most 255 bytes
    try:
        fresh.mkdir(parents=True)
        yield fresh
        replaced = fresh.with_name(fresh.name + ".old")
        if path.exists():
            path.rename(replaced)
        fresh.rename(path)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise cannot_write(path, error, "the checkpoint ") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of weights or trees in a checkpoint folder, and of a former one's seqtune.json."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".safetensors", ".zlib")]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (*files, folder / FORMER / "seqtune.json") if path.is_file()}


def check_digests(folder: Path, wanted: Mapping[str, str]) -> None:
    """Raise CheckpointError for a file that has changed since it was written, as by a flipped bit."""
    if wanted:
        actual = digests(folder)
        for name in [*wanted, *actual]:
            if actual.get(name) != wanted.get(name):
                raise CheckpointError(f"{folder / name[:80]} is not the file that seqtune.json was written with: it is "
                                      "damaged, or another's; copy the whole checkpoint again")


def user_folder() -> Path:
    """The folder that holds the user's own checkpoints by name."""
    return data_folder() / "checkpoints"


def find(name: str | Path) -> Path:
    """The folder of a checkpoint, given by path or by name. Raises CheckpointError if there is none."""
    plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    folders = [SHIPPED / name, user_folder() / name, Path(name)] if plain else [Path(name)]
    with suppress(OSError, ValueError):  # a name that no file system accepts
        for folder in folders:
            if folder.is_dir():
                return folder
    names = sorted({path.name for parent in (SHIPPED, user_folder()) if parent.is_dir()
                    for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")})
    raise CheckpointError(f"no checkpoint {str(name)!r:.200}: not a folder, and the named ones are "
                          f"{', '.join(names) or 'none'} (seqtune train makes one)")


def read_json(path: Path, kind: type[_Model]) -> _Model:
    """Read and check a JSON file of a checkpoint. Raises CheckpointError."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.parent} is no checkpoint: {path.name} is missing")
        if path.stat().st_size > LARGEST_JSON:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's")
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path} cannot be read: {where + ': ' if where else ''}{first['msg']:.200}") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None


def _make_vocabulary(words: WordLists, declared: Sequence[Declaration], path: Path) -> Vocabulary:
    """Make a vocabulary and check it; the error names `path`."""
    kernels = tuple(kernel.name for kernel in declared)
    begins = {words.names[:2] == ("<pad>", "<unknown>"), words.words[:2] == ("<pad>", "<unknown>"),
              words.targets[:2] == ("<pad>", "<begin>")}
    if begins != {True} or any(len(set(part)) != len(part) for part in (words.names, words.words, words.targets,
                                                                        words.derived, kernels)):
        raise CheckpointError(f"{path}: its vocabulary has no proper beginning or repeats a word")
    vocabulary = Vocabulary(words.names, words.words, words.targets, tuple(declared), words.derived)
    try:
        codes(vocabulary.target_values())
        vocabulary.target_groups()
    except (ValueError, OverflowError, RecursionError):
        raise CheckpointError(f"{path}: its vocabulary has a word that is not parameter=value") from None
    return vocabulary


def _check_size(folder: Path, size: Dimensions, vocabulary: Vocabulary) -> None:
    """Raise CheckpointError for dimensions that fit neither the vocabulary nor each other."""
    needed = Dimensions.of(vocabulary)
    for name in ("names", "words", "targets", "groups", "derived", "longest", "code", "quantities"):
        actual, wanted = getattr(size, name), getattr(needed, name)
        if actual != wanted and not (name == "longest" and actual > wanted) and not (
                name == "quantities" and size.fixed_words):
            raise CheckpointError(f"{folder}: config.json has {name}={actual}, its vocabulary needs {wanted}")
    if size.width % size.heads:
        raise CheckpointError(f"{folder}: width {size.width} is not a multiple of heads {size.heads}")


def read_tensors(path: Path, wanted: Mapping[str, tuple[list[int], str]]) -> dict[str, NDArray[Any]]:
    """Read the tensors of a safetensors file.

    Raises CheckpointError if their names, shapes and types are not exactly `wanted`, or if a value is not finite.
    """
    try:
        if (not path.is_file() and path.exists()) or path.stat().st_size > LARGEST_WEIGHTS:  # a pipe would never end
            raise CheckpointError(f"{path} is not a regular file, or has more bytes than any checkpoint's")
        with safe_open(path, framework="np") as file:
            shapes = {name: (piece.get_shape(), piece.get_dtype())
                      for name in file.keys() for piece in [file.get_slice(name)]}  # noqa: SIM118 (not a dict)
            for name in [*wanted, *shapes]:
                if shapes.get(name) != wanted.get(name):
                    raise CheckpointError(f"{path}: the tensor {name:.80} is {_shape(shapes.get(name))}, "
                                          f"config.json needs {_shape(wanted.get(name))}")
            tensors = {name: file.get_tensor(name) for name in wanted}
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is no checkpoint: {path.name} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is no safetensors file ({error!s:.100}); nothing else is read") from None
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise CheckpointError(f"{path}: the tensor {name} has values that are not finite")
    return tensors


def _shape(tensor: tuple[list[int], str] | None) -> str:
    """The type and shape of a tensor as text."""
    return "absent" if tensor is None else f"{tensor[1]}{tensor[0]}"
