"""Environment: a virtual environment with a wheel and the packages that it asks for, and no others."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.installation.requirements import installed_packages, reachable
from tests.support.paths import ROOT


def install(wheel: Path, folder: Path, extras: str = "") -> Path:
    """Make the environment in a folder, with the named extras (by commas), and return its Python.

    It takes no network and a fraction of a second: packages of the environment that runs the tests are linked, and the
    wheel, which is pure Python, is unpacked as an installer does.
    """
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    _take_compiled(site)
    packages = installed_packages() | installed_packages(site)
    linked: dict[str, Path] = {}  # packages that share a folder lie in the same one
    for name in reachable([Requirement(f"seqtune[{extras}]")], packages) - {"seqtune"}:
        for entry in {file.parts[0] for file in packages[name].files or ()} - {"..", "__pycache__"}:
            linked[entry] = Path(str(packages[name].locate_file(entry)))
    for entry, place in linked.items():
        (site / entry).symlink_to(place)
    return folder / "bin" / "python"


def _take_compiled(site: Path) -> None:
    """Take the compiled files of this tree, where it has them: compiling all of the wheel takes seconds.

    Python uses them where the source has the size and the time that they were compiled from.
    """
    for path in site.rglob("seqtune/**/*.py"):
        source = ROOT / path.relative_to(site)
        compiled = Path(importlib.util.cache_from_source(str(source)))
        if compiled.is_file() and source.read_bytes() == path.read_bytes():
            os.utime(path, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
            target = Path(importlib.util.cache_from_source(str(path)))
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, target)


def variables(folder: Path) -> dict[str, str]:
    """Environment variables for programs of such an environment: their home and data are in the folder.

    Their cache is that of the run of the tests, which has recorded rates of the devices.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_DATA"))}
    return kept | {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
