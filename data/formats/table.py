"""Table of formats: the files that `seqtune import`, `export` and `serve-files` know, by name.

A new format is one file with a `Format` and one line here, which declares the options of its writer. The module of a
format is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqtune.errors import MisuseError
from seqtune.kernels.lookup import resolve

from .options import FormatOption, Kind

if TYPE_CHECKING:
    from .format import Format


class FormatEntry(NamedTuple):
    """One format: `module:attribute` of its Format, the meaning of its files, its abilities and what its writer needs.
    """

    reference: str
    meaning: str
    can: str  # "read", "write" (by `export`) or "serve" (by `serve-files`), or "read and" one of these
    endings: tuple[str, ...] = ()  # endings of written files; empty: there is no usual one
    options: tuple[FormatOption, ...] = ()  # of its writer


HOLD_OUT = FormatOption(
    "hold_out", Kind.NAMES, "Problems that no model may learn from: a named set, a file, a condition (experts=64), or "
    "a share (20%) of which none is near a problem that is left. May be repeated.", metavar="PROBLEMS")
_JOURNAL = FormatOption("journal", Kind.JOURNAL, "The journal file.  [default: in the user's data folder]")
_TRIALS = (
    _JOURNAL, FormatOption("data", Kind.PATH, "A data set, instead of a journal."),
    FormatOption("device", Kind.TEXT, "The device of the trials."),
    FormatOption("problem", Kind.PROBLEM, "The problem of the trials, in quotes."))
_MIOPEN = (
    FormatOption("data", Kind.PATH, "A data set with the configurations."),
    FormatOption("predictions", Kind.PATH, "Lines that `predict --json` printed, instead of a data set's rows."),
    FormatOption("device", Kind.TEXT, "The GPU."),
    FormatOption("checkpoint", Kind.TEXT, "For --predictions without --data: the checkpoint with the tables of the "
                 "solvers.", "miopen", "FOLDER_OR_NAME"))
_SERVED = (
    FormatOption("model_config", Kind.PATH, "The model's config.json."),
    FormatOption("device", Kind.TEXT, "The GPU as torch.cuda.get_device_name() prints it."),
    FormatOption("missing_from", Kind.PATH, "A server's log; writes the files that it says are missing.", None, "LOG"),
    FormatOption("data", Kind.PATH, "A data set with tuned choices, of which the nearest are written; without a model "
                 "and a log all of them."),
    FormatOption("tp", Kind.NUMBER, "GPUs of tensor parallelism.", 1),
    FormatOption("ep", Kind.NUMBER, "GPUs of expert parallelism.", 1),
    FormatOption("dtype", Kind.TEXT, "bf16, fp16, fp8_w8a8, int8_w8a8, int8_w8a16 or int4_w4a16.  [default: as in the "
                 "config.json]"),
    FormatOption("triton_version", Kind.TEXT, "The server's version of Triton."),
    FormatOption("tokens", Kind.NUMBERS, "Numbers of tokens to tune for.  [default: 1 to 4096, as their own tuners]",
                 None, "1,2,4,..."),
    FormatOption("checkpoint", Kind.TEXT, "The predictor, or the JSON file of a dispatch.  [default: the one that "
                 "answers for the GPU]", None, "FOLDER_OR_NAME"),
    FormatOption("min_confidence", Kind.SHARE, "Leave out files with a prediction that is not expected to reach this "
                 "share of the best speed (0.8).", None, "SHARE"))
_AITER = (
    FormatOption("data", Kind.PATH, "A data set with aiter's choices, which are written."),
    FormatOption("checkpoint", Kind.TEXT, "The JSON file of a dispatch of quantized_gemm among aiter's kernels.", None,
                 "FOLDER_OR_NAME"),
    FormatOption("shapes", Kind.NAMES, "What is written: aiter's untuned CSV, or another file of problems; the "
                 "dispatch chooses where the data have no choice. May be repeated.  [default: all of the data]",
                 metavar="SOURCE"))
_HERE = "seqtune.data.formats"
FORMATS: Mapping[str, FormatEntry] = {
    "parquet": FormatEntry(f"{_HERE}.dataset_file:PARQUET", "a data set of seqtune", "read and write", (".parquet",),
                           (_JOURNAL, HOLD_OUT)),
    "t4": FormatEntry(f"{_HERE}.t4:T4", "T4 results (.json, .json.gz)", "read and write", (".json",),
                      _TRIALS),
    "kernel-tuner": FormatEntry("seqtune.integrations.kernel_tuner.formats:KERNEL_TUNER",
                                "caches of Kernel Tuner (.json, .json.gz)", "read"),
    "triton": FormatEntry("seqtune.integrations.triton.formats:TRITON", "results of triton.autotune (.autotune.json)",
                          "read"),
    "recorded": FormatEntry(f"{_HERE}.recorded_spaces:RECORDED", "recorded spaces (Parquet with a spaces.json)",
                            "read"),
    "miopen": FormatEntry("seqtune.integrations.miopen.formats.importing:MIOPEN",
                          "MIOpen's perf-dbs and find-dbs, compressed or not", "read"),
    "miopen-text": FormatEntry("seqtune.integrations.miopen.formats.export:TEXT", "MIOpen's user perf-db as text",
                               "read and write", options=_MIOPEN),
    "miopen-udb": FormatEntry("seqtune.integrations.miopen.formats.export:UDB", "MIOpen's user perf-db as SQLite",
                              "read and write", options=_MIOPEN),
    "miopen-override": FormatEntry("seqtune.integrations.miopen.formats.export:OVERRIDE",
                                   "a value of MIOPEN_DEBUG_PERFDB_OVERRIDE", "write", options=_MIOPEN),
    "vllm": FormatEntry("seqtune.integrations.serving.formats.tables:VLLM",
                        "a folder of vLLM's tuned Triton settings", "read and serve", options=_SERVED),
    "sglang": FormatEntry("seqtune.integrations.serving.formats.tables:SGLANG",
                          "a folder of SGLang's tuned Triton settings", "read and serve", options=_SERVED),
    "gemlite": FormatEntry("seqtune.integrations.gemlite.formats:GEMLITE",
                           "gemlite's tuned configurations (.json, .parquet)", "read"),
    "aiter": FormatEntry("seqtune.integrations.aiter.formats:AITER", "aiter's tuned products (.csv, .parquet)",
                         "read and serve", options=_AITER),
    "helion-csv": FormatEntry("seqtune.integrations.helion.formats:HELION", "Helion's log of a search (.csv)",
                              "read"),
    "clblast": FormatEntry("seqtune.integrations.clblast.formats.export:JSON",
                           "a folder of JSON files as CLBlast's tuners write", "write", options=_TRIALS),
    "clblast-cpp": FormatEntry("seqtune.integrations.clblast.formats.export:CPP",
                               "rows of CLBlast's C++ database", "write", (".hpp",), _TRIALS),
}
_LACKS = {"read": "cannot be read", "write": "cannot be written", "serve": "is read by no server"}


def names(ability: str) -> list[str]:
    """The names of the formats with an ability: `read`, `write` or `serve`."""
    return [name for name, entry in FORMATS.items() if ability in entry.can.split(" and ")]


def described(ability: str) -> str:
    """The formats with an ability and their meanings, as one line for a help text."""
    return "; ".join(f"{name}: {FORMATS[name].meaning}" for name in names(ability))


def entry_of(name: str, ability: str) -> FormatEntry:
    """The entry of the format of this name. Raises MisuseError if there is none, or if it lacks the ability.

    The message names the command that writes what `export` wrote until 0.2.0.
    """
    known = names(ability)
    if name in known:
        return FORMATS[name]
    former = {"c": "export-c", **{served: f"serve-files {served}" for served in names("serve")}}
    if ability == "write" and name in former:
        raise MisuseError(f"`seqtune export --format {name}` is now `seqtune {former[name]}`")
    lack = f"{name} {_LACKS[ability]}" if name in FORMATS else f"no format {name!r:.40}"
    raise MisuseError(f"{lack}; there are {', '.join(known)}")


def format_of(name: str, ability: str) -> Format:
    """The format of this name. Raises MisuseError if there is none, or if it lacks the ability."""
    form: Format = resolve(entry_of(name, ability).reference)  # type: ignore[assignment]
    return form


def find_files(name: str, paths: Sequence[str | Path]) -> list[Path]:
    """The files of a format at these paths of files and folders. Raises MisuseError if there is none."""
    patterns = format_of(name, "read").patterns
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise MisuseError(f"no such file: {path}")
        if path.suffix == ".parquet" and not any(pattern.endswith(".parquet") for pattern in patterns):
            raise MisuseError(f"{path} is a data set; {name} reads {FORMATS[name].meaning}")
        files += sorted({file for pattern in patterns for file in path.glob(pattern)}) if path.is_dir() else [path]
    if not files:
        raise MisuseError(f"no file of {name} in {paths[0]}" if paths else f"name a file of {name}")
    return files
