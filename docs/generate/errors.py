"""The page of the exceptions, from the classes of `seqtune.errors`, with the causes and cures of each."""

from __future__ import annotations

from collections.abc import Iterator

from seqtune import errors
from seqtune.errors import SeqtuneError

HEAD = """# Errors

Every exception that seqtune raises on purpose comes from one tree. Its text is one line that says what was found and
what to do. The command line prints that line and ends with the exit code below. Any other exception is a bug.
This page is generated from the program.

A configuration that fails to build, crashes, runs too long or computes a wrong result raises nothing: it is data, a
measurement with its [status](../internals/measuring-and-verification.md#statuses).

| exception | exit code | meaning |
| :-- | --: | :-- |
"""

EXAMPLE = """

```python
import seqtune
from seqtune.errors import MisuseError

try:
    seqtune.predict("conv2d c=-1")
except MisuseError as error:
    print(error, error.exit_code)
```

## Causes and cures

A class that is not listed has those of the class above it.
"""

# exception -> rows of (cause, cure), the most frequent first
CURES: dict[type[SeqtuneError], tuple[tuple[str, str], ...]] = {
    SeqtuneError: (
        ("no kernel of the device solves the problem, or not all problems of a set could be done",
         "the message names them; `seqtune kernels` lists what each kernel solves"),
        ("the journal is written by another process, or is damaged",
         "let the other process end; of a damaged journal, [what can be read is saved](file-formats.md) beside it"),
        ("the disk is full", "make room; the same command goes on"),
    ),
    errors.UnavailableError: (
        ("no driver or device of this backend", "`seqtune devices` says for each backend what is missing; see "
         "[GPUs](../guides/gpus.md) and [ARM and OpenCL](../guides/other-processors.md)"),
        ("a tool of another version than the one that is known here, such as Inductor's or Helion's",
         "install the version that the message names"),
        ("PoCL finds no linker, or the linker finds no libraries", "install a C compiler, which brings both"),
    ),
    errors.MissingPackageError: (
        ("the package belongs to an extra that was not installed", "the command in the message"),
    ),
    errors.Interrupted: (
        ("Ctrl-C, or the SIGTERM of a time limit", "the same command goes on where it stopped"),
    ),
    errors.UnpreparedError: (
        ("the operands do not fit into the memory, or no configuration computes the result to compare with",
         "smaller problems; the problem's other kernels and the other problems of a set go on"),
    ),
    errors.UnpreparedMisuseError: (
        ("a tensor has more than 2^31 elements", "`seqtune predict` without `--verify` answers, since it makes none"),
        ("a library's reference, expected file or default configuration fails",
         "mend it; [How results are checked](library-file.md#how-results-are-checked) has the rules"),
    ),
    errors.MisuseError: (
        ("options that exclude each other, or a value outside its range", "`seqtune COMMAND --help`"),
        ("an output that exists, has the wrong ending or cannot be written", "another `--out`"),
    ),
    errors.ProblemError: (
        ("a feature is missing, misspelled or impossible, such as a filter that is larger than the padded image",
         "the message names it; [Predict](../guides/predict.md#ways-to-name-a-problem) shows how to write problems"),
        ("the operation belongs to a library", "name it with `--library`"),
    ),
    errors.DeviceError: (
        ("this machine has no such device, or fewer cores", "`seqtune devices` lists what there is; `--all` also "
         "what one can only predict and compile for"),
        ("something is to be measured on a device that is only described", "leave out `--verify`, or use its machine"),
        ("a data set or a file of predictions is of other devices", "name one of those in the message with `--device`"),
    ),
    errors.KernelError: (
        ("the name is unknown", "`seqtune kernels` lists the names; a library's need `--library`"),
        ("the kernel does not solve this problem, or not on this device", "the message has the reason; without a name, "
         "any kernel may answer"),
        ("a space is too large to be enumerated",
         "more constraints, or first the parameters whose constraints exclude most"),
    ),
    errors.ConfigurationError: (
        ("a value breaks a constraint, or is none of its parameter's", "the message has the constraint's reason; "
         "`seqtune kernels NAME` lists parameters and constraints"),
        ("the configuration is of an earlier version of the kernel", "predict or tune again"),
    ),
    errors.ExpressionError: (
        ("a condition of a library uses what expressions do not have, or an unknown name",
         "[Library file](library-file.md) lists what they have; `seqtune kernels FILE` gives line and column"),
        ("the order of a word and a number, or a number that is too large, for some values",
         "a condition before it that excludes these values"),
    ),
    errors.FormatError: (
        ("the file is of another kind than the command reads", "[File formats](file-formats.md) lists what is read"),
        ("it was written by a later version", "[Versions](versions.md) says which version reads it"),
        ("it is cut off or damaged", "write or fetch it again"),
        ("it has problems of an operation that is not known", "name its library with `--library`"),
    ),
    errors.CheckpointError: (
        ("the checkpoint was not trained for this operation or backend",
         "name another with `--checkpoint`, or [retrain](../guides/train-and-retrain.md#retrain) it with records of "
         "them"),
        ("kernels have changed since it was trained", "train it again: journals and data sets outlive checkpoints"),
        ("a file of the folder was changed or cut off", "copy or write the folder again"),
    ),
}


def page() -> str:
    """Markdown: the tree as a table, each level indented, and below it a section of causes and cures for each class."""
    rows = "\n".join(
        f"| {'&nbsp;' * 4 * depth}{_link(error)} | {error.exit_code} | {(error.__doc__ or '').splitlines()[0]} |"
        for error, depth in _tree(SeqtuneError))
    return HEAD + rows + EXAMPLE + "".join(_cures(error, CURES[error]) for error in CURES)


def _link(error: type[SeqtuneError]) -> str:
    name = error.__name__
    return f"[`{name}`](#{name.lower()})" if error in CURES else f"`{name}`"


def _cures(error: type[SeqtuneError], rows: tuple[tuple[str, str], ...]) -> str:
    table = "\n".join(f"| {cause} | {cure} |" for cause, cure in rows)
    return f"\n### {error.__name__}\n\n| cause | cure |\n| :-- | :-- |\n{table}\n"


def _tree(error: type[SeqtuneError], depth: int = 0) -> Iterator[tuple[type[SeqtuneError], int]]:
    yield error, depth
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:  # other modules have private ones
            yield from _tree(child, depth + 1)
