"""Shard folder: a data set that is too long for one file, written as a folder of files."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import reason

BATCHES_OF_SHARD = 8_000  # batches of a journal in a file: about a million records


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder whole or not at all: yield a scratch folder, which then gets the name, or replaces a file of it.

    An interruption removes the scratch folder. Raises SeqtuneError for an OSError.
    """
    scratch = path.with_name(f".{path.name[:40]}.{uuid.uuid4().hex}.new")
    try:
        scratch.mkdir()
        yield scratch
        if path.is_file():
            path.unlink()
        os.rename(scratch, path)
    except OSError as error:
        raise SeqtuneError(f"cannot write {path}: {reason(error)}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
