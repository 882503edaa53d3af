"""The page of the exceptions, from the classes of `seqtune.errors`."""

from __future__ import annotations

from collections.abc import Iterator

from seqtune.errors import SeqtuneError

HEAD = """# Errors

Every exception that seqtune raises on purpose comes from one tree. Its text is one line that says what was found and
what to do. The command line prints that line and ends with the exit code below. Any other exception is a bug.

A configuration that fails to build, crashes, runs too long or computes a wrong result raises nothing: it is data, a
measurement with its [status](../internals/measuring-and-verification.md#statuses).

| exception | exit code | meaning |
| :-- | --: | :-- |
"""


def page() -> str:
    """Markdown: the tree as a table, each level indented."""
    return HEAD + "\n".join(
        f"| {'&emsp;' * depth}`{error.__name__}` | {error.exit_code} | {(error.__doc__ or '').splitlines()[0]} |"
        for error, depth in _tree(SeqtuneError)) + EXAMPLE


def _tree(error: type[SeqtuneError], depth: int = 0) -> Iterator[tuple[type[SeqtuneError], int]]:
    yield error, depth
    for child in error.__subclasses__():
        yield from _tree(child, depth + 1)


EXAMPLE = """

```python
import seqtune
from seqtune.errors import MisuseError

try:
    seqtune.predict("conv2d c=-1")
except MisuseError as error:
    print(error, error.exit_code)
```
"""
