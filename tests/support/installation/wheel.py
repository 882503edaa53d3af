"""Wheel: what belongs into it, and one that is built from a copy of the tree, by way of a source distribution."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

FLOORS = ("kernels", "data", "tuner", "predictor", "networks", "integrations")


def build(folder: Path) -> Path:
    """Build a source distribution and from it the wheel, without a network; return the wheel's path."""
    tree = folder / "tree"
    (tree / "seqtune").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
    (tree / "src").mkdir()
    for link in ("src/seqtune", *(f"seqtune/{floor}" for floor in FLOORS)):
        (tree / link).symlink_to(Path("..") / Path(link).name)
    for path in (*front(), *(path for floor in FLOORS for path in shipped(floor))):
        target = tree / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(tree)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    built, = (folder / "dist").glob("*.whl")
    return built


def shipped(floor: str) -> list[Path]:
    """All files of a floor that a user needs."""
    return sorted(path for path in (ROOT / floor).rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
                  and path.name != "README.md")


def front() -> list[Path]:
    """Every file of the top floor, links not followed."""
    return [path for path in shipped("seqtune") if path.relative_to(ROOT).parts[1] not in FLOORS]
