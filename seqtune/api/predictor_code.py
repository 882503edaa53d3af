"""Predictor code: a trained predictor as C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import MisuseError
from .inputs import check_free
from .results import Written


def export_c(out: str | Path, *, checkpoint: str | Path | None = None, libraries: Sequence[str] = (),
             data: str | Path | None = None, prefix: str | None = None, force: bool = False) -> Written:
    """Write a trained predictor as one C99 file, whose name ends with .c, and its header beside it.

    `checkpoint` is written with the kernels of `libraries` alone, if any are named; None is that of the only library,
    or else the shipped one. The names that the code declares begin with `prefix` (None: seqtune). The code is compared
    with the checkpoint on the held-out problems of `data` (None: the shipped data). Raises MisuseError.
    """
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.kernels.files import write_together
    from seqtune.predictor.c_source.file import c_file
    from seqtune.predictor.c_source.public_names import PREFIX
    from seqtune.predictor.predictors import cached_checkpoint

    source = Path(out)
    check_free(source, force)
    if source.suffix != ".c":
        raise MisuseError(f"{source} is not the name of a C file; choose one that ends with .c")
    header = source.with_suffix(".h")
    check_free(header, force)
    written = c_file(cached_checkpoint(checkpoint or _default_checkpoint(libraries)), libraries,
                     lambda: read_dataset(data), PREFIX if prefix is None else prefix)
    write_together({header: written.header, source: written.source})
    return Written(source, {"header": str(header), **written.report})


def _default_checkpoint(libraries: Sequence[str]) -> str | Path:
    """The checkpoint of the only library, if it has one, or else the shipped one for it."""
    from seqtune.kernels.libraries.table import library_in_use

    own = library_in_use(libraries[0]).checkpoint if len(libraries) == 1 else None
    return own or "default"
