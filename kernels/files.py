"""Files: bounded reading, so that a wrong name cannot fill the memory, atomic writing, and files with sections."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from seqtune.errors import FormatError, MisuseError, SeqtuneError, one_line, shown

LONGEST_NAME = 255  # bytes of a file's name, on the usual file systems
TEXTS = (".c", ".cu", ".cl", ".ll", ".txt")  # suffixes of files with sections: sources in other languages, and tables
SCRATCH = ".new"  # the end of the names of scratch files, which begin with a dot
# The system's errors that a wrong name or folder of an output causes; other errors, such as a full disk, are failures.
MISPLACED = (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS,
             errno.ELOOP)
_SECTION = re.compile(r"^(?://|#|;)= (\w+)\n", re.MULTILINE)
_EXPLANATION = re.compile(r"^(?://|#|;)!.*\n", re.MULTILINE)


def reason(error: OSError) -> str:
    """The system's error message in one line; Parquet's readers raise OSErrors of several lines."""
    return error.strerror or one_line(error, 200)


def cannot_write(path: str | Path, error: OSError, kind: str = "") -> SeqtuneError:
    """The error for an output that cannot be written: MisuseError if its name or folder is wrong, else SeqtuneError."""
    path = Path(path)
    if error.errno == errno.ENAMETOOLONG:
        return too_long(path.name)
    return _fault(error)(f"cannot write {kind}{path}: {reason(error)}")


def too_long(name: str) -> MisuseError:
    """The error for a file's name that is too long for the file system."""
    return MisuseError(f"the file name {name:.60}{'...' if len(name) > 60 else ''} is too long; choose a shorter one")


def check_length(path: str | Path) -> None:
    """Check that no part of a path is too long for a file system. Raises MisuseError.

    From Python 3.14 on, `Path.exists` says of such a path that there is no such file.
    """
    name = _overlong_part(path)
    if name is not None:
        raise too_long(name)


def _overlong_part(path: str | Path) -> str | None:
    """The first part of a path that is too long for a file system; None if there is none."""
    return next((part for part in Path(path).parts if len(os.fsencode(part)) > LONGEST_NAME), None)


def _fault(error: OSError) -> type[SeqtuneError]:
    return MisuseError if error.errno in MISPLACED else SeqtuneError


def read_bounded(path: Path, most: int, advice: str = "", only_regular: bool = False) -> bytes:
    """Read a file of at most `most` bytes. Raises FormatError, with `advice` if the file is larger.

    A pipe is read until its writer closes it; with `only_regular`, for files that no user named, it is refused.
    """
    try:
        with open(path, "rb", opener=_open_regular if only_regular else None) as file:
            size = os.fstat(file.fileno()).st_size  # 0 of a pipe
            large = size > most
            content = b"" if large else file.read(1 + (size or most))  # Python takes memory for all that it may read
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    if large or len(content) > most:
        raise FormatError(f"{path} has more than {most // 1_000_000} MB{advice}")
    return content


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; a pipe without a writer would keep the caller waiting. Raises OSError for other files."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no pipes among its files
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


@contextmanager
def replacing(path: str | Path, only_new: bool = False, durable: bool = True) -> Iterator[Path]:
    """Write a file completely or not at all: yield the path of a scratch file, which then replaces the file.

    A reader sees the old file or the new one, even if the writer is killed. The new file gets the permissions of the
    file that it replaces, or those of any new file. A symbolic link is kept, and its target is replaced. With
    `only_new`, a file that another process made in the meantime is not replaced. Without `durable`, the call does
    not wait for the disk: after a power cut the file may be empty or torn, which its reader must detect. A device, a
    pipe or a folder is never replaced. Raises MisuseError for these and for wrong names and folders, and SeqtuneError
    for any other OSError.
    """
    path = Path(path)
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            raise MisuseError(f"cannot write {path}: it is not a regular file")
    except OSError as error:
        raise cannot_write(path, error) from None
    scratch = _scratch_of(target)
    try:
        yield scratch
        if durable:
            _flush(scratch)
        if target.exists():
            scratch.chmod(target.stat().st_mode & 0o777)
        if only_new:
            _link(scratch, target)
        else:
            os.replace(scratch, target)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically, in UTF-8. Raises SeqtuneError."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_together(texts: Mapping[Path, str]) -> None:
    """Write text files, in UTF-8, under scratch names in their folders, which are made, then give all their names.

    A writer that is killed while it moves them leaves complete files, but not all of them. Raises MisuseError if a
    folder cannot be made, and SeqtuneError.
    """
    for folder in dict.fromkeys(path.parent for path in texts):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MisuseError(f"cannot make the folder {folder}: {reason(error)}") from None
    with ExitStack() as stack:
        for path, text in texts.items():
            scratch = stack.enter_context(replacing(path))
            scratch.write_text(text, encoding="utf-8")
            _flush(scratch)  # a full disk is found before the first file is moved


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Write a folder completely or not at all: yield a scratch folder, which then gets the name.

    It takes the name also from a file or an empty folder. An interruption removes the scratch folder. Raises what
    `cannot_write` makes of an OSError.
    """
    scratch = _scratch_of(path)
    try:
        scratch.mkdir()
        yield scratch
        if path.is_file():
            path.unlink()
        os.replace(scratch, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Create a file in the folder and remove it, to find errors before long work.

    Raises MisuseError if the folder is the wrong one, and SeqtuneError if that fails otherwise.
    """
    scratch = _scratch_of(folder / "try")
    try:
        scratch.touch(exist_ok=False)
        scratch.unlink()
    except OSError as error:
        raise _fault(error)(f"cannot write into {folder}: {reason(error)}") from None


def check_path(name: str, value: object) -> None:
    """Check that an argument is a path that may exist, as text or Path, or None. Raises MisuseError with its `name`."""
    if value is not None and (not isinstance(value, str | Path) or not _may_exist(str(value))):
        raise MisuseError(f"{name}={shown(value)}; it must be a path")


def _may_exist(path: str) -> bool:
    """Whether a path can be encoded, has no character 0, and no part that is too long for a file system."""
    with suppress(UnicodeEncodeError):
        return bool(path) and "\0" not in path and _overlong_part(path) is None
    return False


def _scratch_of(target: Path) -> Path:
    """A unique path in the same folder. The target's name is shortened in it: a name has at most 255 bytes."""
    return target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}{SCRATCH}")


def _flush(path: Path) -> None:
    """Wait until the content is on the disk, so that a power cut after the renaming cannot leave an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(scratch: Path, target: Path) -> None:
    """Give the scratch file the target's name unless a file has it; without hard links, rename and replace."""
    with suppress(FileExistsError):
        try:
            os.link(scratch, target)
        except FileExistsError:
            raise
        except OSError:
            os.replace(scratch, target)


def sections(module: str, name: str) -> dict[str, str]:
    """The sections by name of a text file beside a module, which gives its `__file__`.

    A line `//= name` begins a section, or `#= name` or `;= name` in languages with other comments. Lines that begin
    with `//!`, `#!` or `;!` explain a section to its reader and are no part of it.
    """
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    _, *parts = _SECTION.split(_EXPLANATION.sub("", text))
    return dict(zip(parts[::2], parts[1::2], strict=True))
