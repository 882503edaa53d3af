"""Folders that tests read: the repository, and data that may lie beside it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIOPEN = Path(os.environ.get("SEQTUNE_MIOPEN_DATA", ROOT.parent / "shared" / "miopen"))
RECORDED = Path(os.environ.get("SEQTUNE_RECORDED_DATA", ROOT.parent / "shared" / "recorded"))
WINNERS = Path(os.environ.get("SEQTUNE_WINNERS_DATA", ROOT.parent / "shared" / "winners"))
