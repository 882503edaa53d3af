"""OpenCL runtimes that pip installed into this environment, and the folder that makes the ICD loader find them.

An ICD loader reads a folder of `.icd` files, each naming the library of one runtime: the folder of the variable
OCL_ICD_VENDORS, which the loader reads at its first call, or else the system's. pip cannot write into the system's, and
the `.icd` file in Intel's package names a path of the machine that built it. Therefore `prepare` writes a folder of its
own with the system's files and one for each runtime, and points the variable to it. PoCL needs none of this: pyopencl's
loader looks beside itself, too. Intel's libraries find each other (their RUNPATH is their own folder).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import write_whole
from seqtune.kernels.own_folders import cache_folder

VARIABLE = "OCL_ICD_VENDORS"
SYSTEM = Path("/etc/OpenCL/vendors")
LIBRARIES = {"intel-opencl-rt": "libintelocl.so"}  # distribution -> the library that an ICD loader opens
LARGEST_FILE = 4096  # bytes of an `.icd` file, which holds one path


def prepare() -> None:
    """Point the ICD loader to the runtimes of this environment, unless the user has pointed it elsewhere.

    Call it before pyopencl's first call: the loader reads the variable once.
    """
    libraries = installed()
    if VARIABLE in os.environ or not libraries:
        return
    os.environ[VARIABLE] = str(folder_of(entries(libraries)))


def installed() -> dict[str, Path]:
    """The libraries of the runtimes that pip installed: distribution -> path."""
    libraries = {}
    for distribution, name in LIBRARIES.items():
        with suppress(PackageNotFoundError):
            for file in files(distribution) or ():
                if file.name == name and (path := Path(str(file.locate())).resolve()).is_file():
                    libraries[distribution] = path
    return libraries


def entries(libraries: Mapping[str, Path]) -> dict[str, str]:
    """The files of a folder with these libraries and those that the loader would have found without it: name -> text.

    A file that names a missing library is left out, as Intel's own, and so is a library that another file names.
    """
    texts = {f"{distribution}.icd": f"{path}\n" for distribution, path in libraries.items()}
    known = set(libraries.values())
    system = Path(os.environ.get("OPENCL_VENDOR_PATH", "") or SYSTEM)
    for folder in (system, Path(sys.prefix) / "etc" / "OpenCL" / "vendors"):
        for file in sorted(folder.glob("*.icd")) if folder.is_dir() else ():
            library = _library(file)
            if library is not None and library not in known:
                known.add(library)
                texts.setdefault(file.name, f"{library}\n")
    return texts


def _library(file: Path) -> Path | None:
    """The library that an `.icd` file names, or None if there is none. The linker looks up a name without a folder."""
    with suppress(OSError, UnicodeDecodeError, ValueError):
        with file.open(encoding="utf-8") as opened:
            library = Path(opened.read(LARGEST_FILE).strip())
        if library.is_absolute():
            return library.resolve() if library.is_file() else None
        return library if library.name else None
    return None


def folder_of(texts: Mapping[str, str]) -> Path:
    """Write `.icd` files (name -> text) into a folder of the user's cache that bears their digest.

    Where that cannot be written, into a temporary folder, which is removed at the end of the process.
    """
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    folder = cache_folder() / "opencl-vendors" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fill(folder, texts)
    except (OSError, SeqtuneError):
        folder = Path(tempfile.mkdtemp(prefix="seqtune-opencl-vendors-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _fill(folder, texts)
    return folder


def _fill(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode():
            write_whole(folder / name, text)
