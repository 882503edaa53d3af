"""The `seqtune` program: runs a command and reports errors as one line with an exit code.

Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted (Ctrl-C; SIGTERM in a long job). Any other exception is a bug
and shows its traceback.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from .errors import SeqtuneError, SeqtuneWarning

NEW_OBJECTS = 200_000  # objects between two searches for garbage: imports make nearly as many, all of which stay
INTERRUPTED = 130  # the exit code for Ctrl-C, of shells and of typer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # perhaps while the command's modules load
        return _complain("interrupted", INTERRUPTED)


def _run(arguments: Sequence[str] | None) -> int:
    """Load the command line, which takes a tenth of a second, and run one command. Raises KeyboardInterrupt."""
    import typer
    import typer.main

    from .cli import app as command_line

    # The class of "this command line is wrong" (typer brings its own copy of click or uses the installed one).
    click_exception: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as in `seqtune predict ... >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot write µ gets a ?
    gc.set_threshold(NEW_OBJECTS)  # a tenth of a prediction's time was spent in such searches
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # the search reads the metadata of all installed packages
    try:
        with noted_warnings():
            result = typer.main.get_command(command_line).main(
                None if arguments is None else list(arguments), prog_name="seqtune", standalone_mode=False)
        sys.stdout.flush()
        if result == INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except SeqtuneError as error:
        return _complain(str(error), error.exit_code)
    except click_exception as error:
        if error.format_message().startswith("Missing command"):
            return _complain("no command given; seqtune --help lists them", 2)
        return _complain(error.format_message(), 2)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:  # `seqtune ... | head`
        _discard_output()
        return 1
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return _complain(f"the file name {error.filename!s:.60}... is too long; choose a shorter one", 2)
        if error.errno == errno.ENOSPC:
            _discard_output()
            return _complain(f"cannot write {error.filename or 'the output'}: the disk is full", 1)
        raise


def _discard_output() -> None:
    """Write what is left of the output to nowhere: the interpreter would fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def noted_warnings() -> Iterator[None]:
    """Print each SeqtuneWarning once, as a note without the place in the source; other warnings stay as they are."""
    texts = set[str]()
    show: Any = warnings.showwarning

    def note_once(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, SeqtuneWarning):
            show(message, category, *rest, **more)
        elif str(message) not in texts:
            from .cli.progress import note

            texts.add(str(message))
            note(" ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("always", SeqtuneWarning)
        warnings.showwarning = note_once
        yield


def _complain(message: str, code: int) -> int:
    print("seqtune: " + " ".join(message.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
