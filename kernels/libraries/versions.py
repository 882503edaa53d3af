"""Versions: whether a record, data set or checkpoint of an earlier time is of a kernel as it is today.

The version of a kernel that a library's file declares covers its *parts*: files of the library's folder and keys of its
file, each with a digest. Journals, data sets and checkpoints keep the parts of the versions in them, so that messages
name what has changed. The versions of other kernels have no parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..kernel import Kernel
from .library import Library
from .table import IN_USE, kernel_in_use

Parts = Mapping[str, str]  # file or key -> digest
MOST_NAMED = 3  # changed files and keys in a message


def declared_kernel_of(name: str) -> tuple[Kernel, Library] | None:
    """The kernel of this name and its library if a library in use declares it; nothing is imported."""
    library = IN_USE.get(name.partition(".")[0])
    if not isinstance(library, Library) or library.document is None or name not in library.table:
        return None
    return library.kernel(name), library


def is_todays(kernel: Kernel, version: int, parts: Parts | None) -> bool:
    """Whether a version, whose parts are known or not, is the kernel of today.

    The version that 0.2.0 gave, which made other digests, counts as today's, and so does one of equal parts, such as a
    pinned `version`.
    """
    return version in (kernel.version, *kernel.former_versions) or bool(parts and parts == dict(kernel.parts))


def changes(former: Parts | None, kernel: Kernel) -> str:
    """The files and keys that have changed since a version of these parts, in words."""
    if not former:
        return "which file or key has changed is not known, since seqtune up to 0.2.0 did not keep it"
    today = dict(kernel.parts)
    names = sorted(name for name in {**former, **today} if former.get(name) != today.get(name))
    if not names:
        return "the key `version` has changed"
    shown = [f"{name:.80}" for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        shown.append(f"{len(names) - MOST_NAMED} more")
    listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{listed} {'have' if len(names) > 1 else 'has'} changed"


def how_to_keep(kernel: str, version: int, kept: str) -> str:
    """The advice how to go on with what a version has."""
    declared = declared_kernel_of(kernel)
    if declared is None or declared[1].origin.lower().endswith(".json"):
        return f"a library.toml would keep {kept} by `version = {version}`"
    return f"`version = {version}` under [kernels.{kernel.partition('.')[2]}] in {declared[1].origin} keeps {kept}"


@dataclass(frozen=True)
class KernelVersions:
    """The parts of declared kernels' versions, by the kernel's name and the version, the latest recorded last."""

    parts: Mapping[tuple[str, int], Parts] = field(default_factory=dict)

    def todays(self, name: str, version: int) -> int:
        """The version of today if this one is of the kernel as it is today, else the version itself."""
        declared = declared_kernel_of(name)
        if declared is None:
            return version
        kernel, _ = declared
        return kernel.version if is_todays(kernel, version, self.parts.get((name, version))) else version

    def same(self, kernel: Kernel) -> list[int]:
        """The versions whose records are of the kernel as it is today."""
        known = [version for (name, version), parts in self.parts.items()
                 if name == kernel.name and is_todays(kernel, version, parts)]
        return list(dict.fromkeys((kernel.version, *kernel.former_versions, *known)))

    def notes(self, counts: Mapping[tuple[str, int], int]) -> list[str]:
        """A line for each known kernel that has records of earlier versions; `counts` are records by version."""
        earlier: dict[Kernel, dict[int, int]] = {}
        for (name, version), count in counts.items():
            kernel = kernel_in_use(name)
            if kernel is not None and self.todays(name, version) != kernel.version:
                earlier.setdefault(kernel, {})[version] = count
        return [self._note(kernel, versions) for kernel, versions in earlier.items()]

    def _note(self, kernel: Kernel, counts: Mapping[int, int]) -> str:
        total = sum(counts.values())
        subject, are, do = ("records", "are", "do") if total > 1 else ("record", "is", "does")
        earlier = "an earlier version" if len(counts) == 1 else f"{len(counts)} earlier versions"
        records = f"{total} {subject} of {kernel.name} {are} of {earlier} and {do} not count"
        if not kernel.parts:
            return f"{records}: its code has changed since, so it must be measured again"
        order = [version for name, version in self.parts if name == kernel.name]
        latest = max(counts, key=lambda version: order.index(version) if version in order else -1)
        kept = "them" if len(counts) == 1 else f"the {counts[latest]} of the latest"
        return (f"{records}: {changes(self.parts.get((kernel.name, latest)), kernel)}; "
                f"{how_to_keep(kernel.name, latest, kept)}")

    def to_json(self) -> list[dict[str, object]]:
        """The versions as JSON objects."""
        return [{"kernel": name, "version": version, "parts": dict(parts)}
                for (name, version), parts in self.parts.items()]

    @classmethod
    def from_json(cls, content: object) -> KernelVersions:
        """The inverse of `to_json`. Raises ValueError, TypeError, KeyError."""
        if not isinstance(content, list):
            raise TypeError("versions are no list")
        return cls({(str(entry["kernel"]), int(entry["version"])):
                    {str(name): str(digest) for name, digest in entry["parts"].items()} for entry in content})
