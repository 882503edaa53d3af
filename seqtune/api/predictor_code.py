"""Predictor code: the formats in which `seqtune export` writes a trained predictor.

The help text of `export` names them, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MisuseError

if TYPE_CHECKING:
    from seqtune.data.formats.format import ExportRequest

CODE: Mapping[str, str] = {  # name of the format -> the meaning of its files
    "c": "a trained predictor as one C99 file with its header",
}


def described_code() -> str:
    """The formats and their meanings, as one line for a help text."""
    return "; ".join(f"{name}: {meaning}" for name, meaning in CODE.items())


def code_writer(checkpoint: str | Path | None, libraries: Sequence[str], prefix: str | None,
                force: bool) -> Callable[[ExportRequest, Path], dict[str, Any]]:
    """The function that writes a checkpoint to a path.

    Without a checkpoint it writes that of the library, or else the shipped one. Only the kernels of `libraries` are
    written, if any are named. The code's public names begin with `prefix` (None: seqtune). The request's data set, or
    else the shipped one, has the problems on which the code is compared with the checkpoint.
    """
    def write(request: ExportRequest, out: Path) -> dict[str, Any]:
        return _write_c(checkpoint or _default_checkpoint(libraries), libraries, out, prefix, force, request.data)

    return write


def _write_c(checkpoint: str | Path, libraries: Sequence[str], out: Path, prefix: str | None, force: bool,
             data: Path | None) -> dict[str, Any]:
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.kernels.files import write_together
    from seqtune.predictor.c_source.file import c_file
    from seqtune.predictor.c_source.public_names import PREFIX
    from seqtune.predictor.predictors import cached_checkpoint

    from .inputs import check_free

    if out.suffix != ".c":
        raise MisuseError(f"{out} is not the name of a C file; choose one that ends with .c")
    header = out.with_suffix(".h")
    check_free(header, force)
    written = c_file(cached_checkpoint(checkpoint), libraries, lambda: read_dataset(data),
                     PREFIX if prefix is None else prefix)
    write_together({header: written.header, out: written.source})
    return {"header": str(header), **written.report}


def _default_checkpoint(libraries: Sequence[str]) -> str | Path:
    """The checkpoint of the only library, if it has one, or else the shipped one for it."""
    from seqtune.kernels.libraries.table import library_in_use

    own = library_in_use(libraries[0]).checkpoint if len(libraries) == 1 else None
    return own or ("miopen" if tuple(libraries) == ("miopen",) else "default")
