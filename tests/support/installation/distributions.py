"""Distributions: a check of what is uploaded. `python -m tests.support.installation.distributions FOLDER`."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path

from packaging.metadata import ExceptionGroup, Metadata

from seqtune.kernels.version import VERSION
from tests.support.installation.wheel import FLOORS, front, shipped
from tests.support.paths import ROOT

LARGEST = 100_000_000  # bytes; PyPI refuses larger files


def findings(folder: Path) -> Iterator[str]:
    """What is wrong with the two files in a folder; nothing if they can be uploaded."""
    names = sorted(path.name for path in folder.iterdir())
    if names != [f"seqtune-{VERSION}-py3-none-any.whl", f"seqtune-{VERSION}.tar.gz"]:
        yield f"expected a wheel and a source distribution of version {VERSION}, found {', '.join(names) or 'nothing'}"
        return
    wheel, source = (folder / name for name in names)
    yield from (f"{path.name} has {path.stat().st_size} bytes" for path in (wheel, source)
                if path.stat().st_size > LARGEST)
    wanted = {f"seqtune/{path.relative_to(ROOT).as_posix()}": path for floor in FLOORS for path in shipped(floor)}
    wanted |= {path.relative_to(ROOT).as_posix(): path for path in front()}
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        yield from _metadata(wheel.name, archive.read(f"seqtune-{VERSION}.dist-info/METADATA"))
    yield from (f"{wheel.name} lacks {name}" for name in sorted(wanted.keys() - held))
    package = {name for name in held if ".dist-info/" not in name}
    yield from (f"{wheel.name} holds {name}, which the sources do not" for name in sorted(package - wanted.keys()))
    top = f"seqtune-{VERSION}/"
    with tarfile.open(source) as archive:
        entries = {member.name: member for member in archive.getmembers()}
        yield from (f"{source.name} holds {name}, a link or no plain file" for name, member in sorted(entries.items())
                    if not (member.isfile() or member.isdir()))
        information = archive.extractfile(entries[f"{top}PKG-INFO"])
        assert information is not None
        yield from _metadata(source.name, information.read())
    needed = {f"src/{name}" for name in wanted} | {"LICENSE", "README.md", "pyproject.toml"}
    yield from (f"{source.name} lacks {name}" for name in sorted(needed) if top + name not in entries)


def _metadata(name: str, content: bytes) -> Iterator[str]:
    """What is wrong with the metadata of a distribution."""
    try:
        metadata = Metadata.from_email(content, validate=True)
    except ExceptionGroup as group:
        yield from (f"{name}: {error}" for error in group.exceptions)
        return
    fields = BytesParser().parsebytes(content)
    if str(metadata.version) != VERSION:
        yield f"{name}: version {metadata.version}, but kernels/version.py says {VERSION}"
    if metadata.description_content_type != "text/markdown" or not (metadata.description or "").startswith("# seqtune"):
        yield f"{name}: the README is not its description"
    if fields.get("License-Expression") != "MIT" or fields.get_all("License-File") != ["LICENSE"]:
        yield f"{name}: the licence is not named"
    if re.search(r"^Requires-Dist: .*@", content.decode(), re.M):
        yield f"{name}: a requirement is an address, which PyPI refuses"


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if there are any."""
    folder = Path(arguments[0])
    lines = list(findings(folder))
    print("\n".join(lines or [f"{path} ({path.stat().st_size / 1e6:.0f} MB)" for path in sorted(folder.iterdir())]),
          file=sys.stderr if lines else sys.stdout)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
