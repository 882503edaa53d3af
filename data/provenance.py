"""Provenance: words about the source of a data set, and the mark of a dry run."""

from __future__ import annotations

from collections.abc import Mapping

from seqtune.errors import MisuseError

DRY_RUN = "dry run: replayed records, not measurements"


def check_measured(provenance: Mapping[str, str], source: object) -> None:
    """Raise MisuseError if a data set holds the answers of a dry run, which no model may learn and nobody may ship."""
    if "dry_run" in provenance:
        raise MisuseError(f"{source} holds the answers of a dry run, not measurements; measure on a GPU")


def joined(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """The provenance of two data sets together; where the words differ, both are listed, separated by semicolons."""
    return {name: "; ".join(dict.fromkeys(word for part in (first, second) if name in part
                                          for word in part[name].split("; "))) for name in {**first, **second}}
