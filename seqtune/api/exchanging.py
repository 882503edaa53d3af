"""Exchange: import files of any format into a data set; export records or configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.data.formats.table import FORMATS, find_files, format_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.say import Say
from seqtune.predictor.predictors import cached_checkpoint

from ..errors import MisuseError, warned
from .inputs import as_problem, check_ending, check_folder, check_free, check_journal
from .predictor_code import CODE, code_writer
from .results import Written

if TYPE_CHECKING:
    from seqtune.data.serving.request import Propose, ServingRequest
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem


def import_data(source: str, paths: Sequence[str | Path], out: str | Path, *, devices: Sequence[str | Device] = (),
                keys: Sequence[str] = (), hold_out: str | Sequence[str] = (), force: bool = False,
                warn: Say = warned) -> Written:
    """Read files of the format `source` (files, or folders of them) into one data set.

    `devices` gives what the files lack: one device for all of them, or MIOpen GPUs with their facts
    (`gfx1201_32 compute_units=64`). `keys` names the arguments whose values are the key of a file of triton, or the
    features of problems in Kernel Tuner's caches. `hold_out` names problems that no model may learn from: a set or a
    file, a condition such as `experts=64`, or a share such as `20%`. Raises MisuseError, FormatError.
    """
    form = format_of(source, "read")
    assert form.read is not None
    check_ending(Path(out), FORMATS["parquet"].meaning, *FORMATS["parquet"].endings)
    check_free(Path(out), force)
    if form.devices is not None and len(devices) > form.devices:
        raise MisuseError("one --device for all of these files" if form.devices else
                          f"files of {source} name their devices; leave out --device")
    if keys and form.named is None:
        raise MisuseError(f"files of {source} name what they hold; leave out --keys")
    read = form.named(keys) if keys and form.named is not None else form.read
    content = read(find_files(source, paths), devices)
    for note in content.notes:
        warn(note)
    if not len(content.data):
        raise MisuseError(f"no usable time was found in {', '.join(map(str, paths))[:200]}{_left_out(content.reports)}")
    data = content.data.holding_out(_names(hold_out), warn)
    data.write(out)
    return Written(Path(out), {"records": len(data), "problems": len(data.known_problems),
                               "held_out": len(data.held_out.intersection(data.known_problems)),
                               "files": list(content.reports)})


def export(out: str | Path, form: str = "parquet", *, journal: str | Path | None = None,
           data: str | Path | None = None, predictions: str | Path | None = None, device: Device | str | None = None,
           problem: object = None, hold_out: str | Sequence[str] = (), checkpoint: str | Path | None = None,
           serving: ServingRequest | None = None, libraries: Sequence[str] = (), prefix: str | None = None,
           force: bool = False) -> Written:
    """Write the records of a journal (None: the default one) or of a data set in another format.

    `hold_out` names problems that no model may learn from, as for `import_data`. `predictions` is a file of lines that
    `predict --json` printed. For MIOpen's formats, `data` or else `checkpoint` provides the rows of its solvers'
    tables. For vLLM and SGLang, `out` is a folder, `serving` says which files are wanted, and `checkpoint` predicts
    their content (None: the predictor that answers for Triton). The formats of `seqtune.api.predictor_code` write a
    checkpoint as code, with the kernels of `libraries` alone, if any are named, and compare it with the checkpoint on
    problems of `data`; the names that the code declares begin with `prefix` (None: seqtune). Raises MisuseError for
    arguments that the format does not take.
    """
    from seqtune.data.formats.format import ExportRequest, Format
    from seqtune.data.journal.journal import default_path
    from seqtune.data.serving.request import ServingRequest
    from seqtune.predictor.learning.tasks.shortage import shortage_note

    code = form in CODE
    chosen = (Format((), write=code_writer(checkpoint, libraries, prefix, force), takes=("data",)) if code
              else format_of(form, "write"))
    assert chosen.write is not None
    arguments = {"journal": journal, "data": data, "predictions": predictions, "device": device, "problem": problem,
             "hold_out": hold_out}
    defaults = ServingRequest()
    arguments |= {part.name: value for part in fields(defaults)
                  if (value := getattr(serving or defaults, part.name)) != getattr(defaults, part.name)}
    for name, value in arguments.items():
        if name not in chosen.takes and value is not None and value != ():
            taken = ", ".join(map(_option, (*chosen.takes, *(("checkpoint", "library", "prefix") if code else ()))))
            raise MisuseError(f"{_option(name)} is not for --format {form}, which takes {taken}")
    if prefix is not None and not code:
        raise MisuseError(f"--prefix is for the names of C code, not for --format {form}")
    source = None
    if "journal" in chosen.takes and data is None:
        source = default_path() if journal is None else Path(journal)
        check_journal(source)
    if chosen.folder:
        check_folder(Path(out))
    else:
        if not code:  # `code_writer` checks the name itself
            check_ending(Path(out), FORMATS[form].meaning, *FORMATS[form].endings)
        check_free(Path(out), force)
    answered: dict[str, dict[str, None]] = {}
    request = ExportRequest(
        source, None if data is None else Path(data), None if predictions is None else Path(predictions), device,
        None if problem is None else as_problem(problem), _names(hold_out),
        lambda: cached_checkpoint(checkpoint or "miopen").tables, serving,
        _proposer(checkpoint, answered), _driver_facts, force)
    report = dict(chosen.write(request, Path(out)))
    if answered:
        report["predictor"] = " and ".join(answered)
    lacking = shortage_note(report["problems"] - report["held_out"]) if form == "parquet" else None
    if notes := dict.fromkeys(filter(None, (report.get("note"), lacking, *chain.from_iterable(answered.values())))):
        report["note"] = "; ".join(notes)
    return Written(Path(out), report)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _proposer(checkpoint: str | Path | None, answered: dict[str, dict[str, None]]) -> Propose:
    """The proposals of a checkpoint, or of the predictor that answers for a device, as formats call them.

    `answered` gets the name of each predictor that answered, with its notes.
    """
    from seqtune.kernels.task import Task
    from seqtune.predictor.answering import Answering

    def proposals(problem: Problem, device: Device, count: int) -> Mapping[Configuration, float | None]:
        asked = Answering.of(Task.of(problem, device), checkpoint)
        answered.setdefault(str(asked.name), {}).update(dict.fromkeys(asked.notes))
        candidates = asked.propose(count)
        return {configuration: None if candidate.confidence is None else candidate.confidence.share
                for configuration, candidate in candidates.items()}

    return proposals


def _driver_facts(device: Device) -> Mapping[str, str | int]:
    """The facts that the OpenCL driver reports of a device of this machine; of other devices none."""
    from seqtune.tuner.backends.opencl.discovery import driver_facts

    return driver_facts(device.name) if device.backend == "opencl" else {}


def _left_out(reports: Sequence[Mapping[str, Any]]) -> str:
    """The most frequent reason why rows were left out, in brackets; empty if the reports name none."""
    counts = sum((Counter(report.get("skipped", {})) for report in reports), Counter[str]())
    return "".join(f" (left out {count}: {reason})" for reason, count in counts.most_common(1))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
