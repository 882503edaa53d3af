"""Exchange: import files of any format into a data set; export records, and files that servers read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.data.formats.options import FormatOption, Kind, flag_of, unknown_option
from seqtune.data.formats.table import FORMATS, entry_of, find_files, format_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path
from seqtune.kernels.say import Say
from seqtune.predictor.predictors import cached_checkpoint

from ..errors import MisuseError, warned
from .inputs import as_problem, check_ending, check_folder, check_free, check_journal, several
from .results import Written

if TYPE_CHECKING:
    from seqtune.data.formats.format import Propose
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem


def import_data(source: str, paths: Sequence[str | Path], out: str | Path, *, devices: Sequence[str | Device] = (),
                keys: Sequence[str] = (), hold_out: str | Sequence[str] = (), force: bool = False,
                note: Say = warned) -> Written:
    """Read files of the format `source` (files, or folders of them) into one data set.

    `devices` gives what the files lack: one device for all of them, or MIOpen GPUs with their facts
    (`gfx1201_32 compute_units=64`). `keys` names the arguments whose values are the key of a file of triton, or the
    features of problems in Kernel Tuner's caches. `hold_out` names problems that no model may learn from: a set or a
    file, a condition such as `experts=64`, or a share such as `20%`. `note` receives what the user
    should notice. Raises MisuseError, FormatError.
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
    for line in content.notes:
        note(line)
    if not len(content.data):
        raise MisuseError(f"no usable time was found in {', '.join(map(str, paths))[:200]}{_left_out(content.reports)}")
    data = content.data.holding_out(_names(hold_out), note)
    data.write(out)
    return Written(Path(out), {"records": len(data), "problems": len(data.known_problems),
                               "held_out": len(data.held_out.intersection(data.known_problems)),
                               "files": list(content.reports)})


def export(out: str | Path, form: str = "parquet", *, force: bool = False, **options: Any) -> Written:
    """Write records or configurations in the format `form` to a file, or for some formats into a folder.

    `options` are those that the format declares; `seqtune export --format FORM --help` lists them. Records come from
    `journal` (None: the default one) or, where a format takes it, from the data set `data`. `hold_out` names problems
    that no model may learn from, as for `import_data`. Raises MisuseError for an option that the format does not have.
    """
    from seqtune.predictor.learning.tasks.shortage import shortage_note

    report = _write("write", form, Path(out), force, options, {
        "learned_tables": lambda checkpoint: cached_checkpoint(checkpoint).tables, "driver_facts": _driver_facts})
    if form == "parquet" and (note := shortage_note(report["problems"] - report["held_out"])):
        report["note"] = note
    return Written(Path(out), report)


def serve_files(out: str | Path, server: str, *, force: bool = False, **options: Any) -> Written:
    """Write the files with tuned settings that a server (`vllm`, `sglang`, `aiter`) reads into the folder `out`.

    `options` are those that the server's format declares; `seqtune serve-files SERVER --help` lists them. For `vllm`
    and `sglang` either `model_config` and `device`, or `missing_from`, a server's log, say which files are wanted;
    `checkpoint` predicts their content (None: the predictor that answers for Triton). For `aiter` it is a dispatch.
    Raises MisuseError for an option that the server's format does not have.
    """
    check_path("out", out)
    answered: dict[str, dict[str, None]] = {}
    report = _write("serve", server, Path(out), force, options,
                    {"proposer": lambda checkpoint: _proposer(checkpoint, answered), "members": _members})
    if answered:
        report["predictor"] = " and ".join(answered)
    if notes := dict.fromkeys(filter(None, (report.get("note"), *chain.from_iterable(answered.values())))):
        report["note"] = "; ".join(notes)
    return Written(Path(out), report)


def _write(ability: str, form: str, out: Path, force: bool, options: Mapping[str, Any],
           answers: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments, write, and return the format's report. `answers` are those that a writer may ask for."""
    entry, chosen = entry_of(form, ability), format_of(form, ability)
    assert chosen.write is not None
    values = _values(form, entry.options, options)
    if chosen.folder:
        check_folder(out)
    else:
        check_ending(out, entry.meaning, *entry.endings)
        check_free(out, force)
    asked = {name: force if name == "force" else answers[name] for name in chosen.asks}
    return dict(chosen.write(out, **values, **asked))


def _values(form: str, declared: Sequence[FormatOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every declared option, as its writer receives it. Raises MisuseError, ProblemError."""
    names = {option.name for option in declared}
    for name, value in given.items():
        if name not in names and value is not None:
            raise MisuseError(unknown_option(form, flag_of(name), declared))
    return {option.name: _value(option, given) for option in declared}


def _value(option: FormatOption, given: Mapping[str, Any]) -> Any:
    """The value of one option among those that were given, or its default."""
    value: Any = option.default if given.get(option.name) is None else given[option.name]
    if option.kind is Kind.JOURNAL:
        return _journal(value) if given.get("data") is None else None
    if option.kind is Kind.NAMES:
        return _names(() if value is None else value)
    if value is None:
        return None
    if option.kind is Kind.PATH:
        return Path(value)
    if option.kind is Kind.NUMBERS:
        return tuple(several(value))
    return as_problem(value) if option.kind is Kind.PROBLEM else value


def _journal(path: str | Path | None) -> Path:
    """The path of a journal that exists; None: the user's own. Raises MisuseError."""
    from seqtune.data.journal.journal import default_path

    journal = default_path() if path is None else Path(path)
    check_journal(journal)
    return journal


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


def _members(path: str | Path, problems: Sequence[Problem]) -> tuple[Device, list[Configuration | None]]:
    """The device of a dispatch, and what it chooses for each problem. Raises MisuseError where nothing is proved."""
    from seqtune.kernels.problem_sets.columns import ProblemColumns
    from seqtune.predictor.dispatch.dispatcher import Dispatcher

    chosen = Dispatcher.load(path)
    if any(problem.type != chosen.operation.name for problem in problems):
        raise MisuseError(f"{path} chooses among kernels of {chosen.operation.name}, not {problems[0].type}")
    if chosen.device is None or not chosen.promised:
        raise MisuseError(f"{path} does not know for which shapes its kernels are valid")
    numbers = chosen.choose_many(ProblemColumns.of(problems)).members.tolist()
    return chosen.device, [chosen.members[number] if number >= 0 else None for number in numbers]


def _driver_facts(device: Device) -> Mapping[str, str | int]:
    """The facts that the OpenCL driver reports of a device of this machine; of other devices none."""
    from seqtune.tuner.backends.opencl.discovery import driver_facts

    return driver_facts(device.name) if device.backend == "opencl" else {}


def _left_out(reports: Sequence[Mapping[str, Any]]) -> str:
    """The most frequent reason why rows were left out, in brackets; empty if the reports name none."""
    counts = sum((Counter(report.get("skipped", {})) for report in reports), Counter[str]())
    return "".join(f" (left out {count}: {reason})" for reason, count in counts.most_common(1))


def export_c(out: str | Path, *, checkpoint: str | Path | None = None, libraries: Sequence[str] = (),
             data: str | Path | None = None, prefix: str | None = None, force: bool = False) -> Written:
    """Write a trained predictor as one C99 file, whose name ends with .c, and its header beside it.

    `checkpoint` is written with the kernels of `libraries` alone, if any are named; None is that of the only library,
    or else the shipped one. The names that the code declares begin with `prefix` (None: seqtune). The code is compared
    with the checkpoint on the held-out problems of `data` (None: the shipped data). Raises MisuseError.
    """
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.kernels.files import write_together
    from seqtune.predictor.c_source.file import c_file
    from seqtune.predictor.c_source.public_names import PREFIX
    from seqtune.predictor.predictors import cached_checkpoint

    source = Path(out)
    check_free(source, force)
    if source.suffix != ".c":
        raise MisuseError(f"{source} is not the name of a C file; choose one that ends with .c")
    header = source.with_suffix(".h")
    check_free(header, force)
    written = c_file(cached_checkpoint(checkpoint or _default_checkpoint(libraries)), libraries,
                     lambda: read_dataset(data), PREFIX if prefix is None else prefix)
    write_together({header: written.header, source: written.source})
    return Written(source, {"header": str(header), **written.report})


def _default_checkpoint(libraries: Sequence[str]) -> str | Path:
    """The checkpoint of the only library, if it has one, or else the shipped one for it."""
    from seqtune.kernels.libraries.table import library_in_use

    own = library_in_use(libraries[0]).checkpoint if len(libraries) == 1 else None
    return own or "default"
