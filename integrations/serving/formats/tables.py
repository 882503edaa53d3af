"""Files of vLLM and SGLang: tuned settings of Triton kernels by number of tokens, for one layer and GPU each."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from seqtune.data.dataset import Dataset
from seqtune.data.formats.format import Format, Propose, Proposer, Report
from seqtune.data.gpu_names import gpu_of
from seqtune.errors import CheckpointError, FormatError, MisuseError, ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import write_together
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .choices import NearestChoices, choices_of, listed, read_choices
from .request import TOKENS, TRITON, ServingRequest, WantedFile, wanted_files
from .table_file import Table, TableFile, table_text

LINEAR = "linear"  # folder of the files of linear layers, for which the servers have no environment variable
_INSTALLED = {"vllm": "vllm/model_executor/layers/quantization/utils/configs",
              "sglang": "sglang/kernels/ops/gemm/configs"}
_DOWN_PROPOSALS = 400  # proposals that are searched for one with the first product's BLOCK_SIZE_M


def _write(project: str, out: Path, *, device: str | Device | None, data: Path | None,
           checkpoint: str | Path | None, tokens: tuple[int, ...] | None, force: bool, proposer: Proposer,
           **wanted: Any) -> Report:
    """Write the files of a model, of a log or of a data set into a folder: all of them or none."""
    serving = ServingRequest(tokens=TOKENS if tokens is None else tokens, **wanted)
    if data is not None and serving.model_config is None and serving.missing_from is None:
        if serving != ServingRequest() or device is not None:
            raise MisuseError("--data alone is written as it is; leave out the other options, or give --model-config "
                              "or --missing-from, whose files then get the nearest choices in the data")
        choices = choices_of(Dataset.read(data))
        tables = {_path(project, file, version): (file, table, version)
                  for (file, version), table in choices.items() if file.is_of(project)}
        if not tables:
            raise MisuseError(f"{data} holds choices of files that SGLang alone looks for; "
                              "`seqtune serve-files sglang` writes them")
        left_out = {path.name: "a file that SGLang alone looks for" for path in (
            _path(project, file, version) for file, version in choices if not file.is_of(project))}
        targets = _targets(tables, out, force)
        texts = {path: table_text(table, _version(project, file, version))
                 for path, (file, table, version) in tables.items()}
        rows = [{"file": path.name, "entries": len(table)} for path, (_, table, _) in tables.items()]
        facts: str | None = None
        notes: tuple[str, ...] = ()
    else:
        gpu = device if isinstance(device, Device) or device is None else gpu_of(device)
        files, left_out = wanted_files(serving, project, gpu)
        paths = {_path(project, file.file, serving.triton_version): file for file in files}
        targets = _targets(paths, out, force)
        nearest_choices = None if data is None else NearestChoices(Dataset.read(data))
        propose = proposer(checkpoint)
        texts, rows, doubts = {}, [], {}
        for path, file in paths.items():
            try:
                content = Content.of(file, serving, propose, gpu, nearest_choices)
            except CheckpointError as error:  # a dispatch serves layers of one operation
                doubts[path.name] = str(error)
                continue
            doubt = "" if serving.min_confidence is None else content.doubt(serving.min_confidence)
            if doubt:
                doubts[path.name] = f"{doubt} (--min-confidence)"
                continue
            texts[path] = table_text(content.table, _version(project, file.file, serving.triton_version))
            rows.append({"file": path.name, "layer": file.layer, "entries": len(content.table),
                         **({} if nearest_choices is None else {"from data": content.nearest}),
                         **({} if content.least is None else {"confidence": round(content.least, 3)})})
        if not texts:
            name, doubt = next(iter(doubts.items()))
            raise MisuseError(f"no file can be written; {name}: {doubt}")
        left_out = {**left_out, **doubts}
        facts = None if gpu is None else gpu.model
        notes = tuple(dict.fromkeys(file.note for file in files if file.note))
    write_together({targets[path]: text for path, text in texts.items()})
    report: Report = {"files": rows}
    if left_out:
        report["left out"] = [{"file": name, "reason": reason} for name, reason in left_out.items()]
    if notes:
        report["note"] = "; ".join(notes)
    return {**report, **({"device": facts} if facts else {}), **_usage(project, out, list(texts))}


def _path(project: str, file: TableFile, version: str | None) -> Path:
    """The path of a file within the folder."""
    name = file.name(project)
    if not file.experts:
        return Path(LINEAR) / name
    return Path("configs") / f"triton_{(version or TRITON).replace('.', '_')}" / name if project == "sglang" else (
        Path(name))


def _targets(paths: Iterable[Path], out: Path, force: bool) -> dict[Path, Path]:
    """The files to write. Raises MisuseError if one exists, unless `force`."""
    targets = {path: out / path for path in paths}
    existing = [target for target in targets.values() if target.exists() or target.is_symlink()]
    if existing and not (force and all(target.is_file() for target in existing)):
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise MisuseError(f"{existing[0]} exists{more}; --force overwrites files")
    return targets


def _version(project: str, file: TableFile, version: str | None) -> str | None:
    """The version of Triton that a file names; only vLLM's loader of experts accepts that key."""
    return version if project == "vllm" and file.experts else None


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, from nearest choices or else a model's proposals."""

    table: Table
    nearest: int  # entries that are nearest choices
    shares: dict[int, float | None]  # expected of the predicted entries, by number of tokens; None: unknown

    @classmethod
    def of(cls, wanted: WantedFile, serving: ServingRequest, model: Propose, device: Device | None,
           choices: NearestChoices | None) -> Content:
        """Choose the settings for each number of tokens. Raises FormatError where no kernel has such sizes."""
        gpu = device or gpu_of(wanted.file.device)
        table: Table = {}
        shares: dict[int, float | None] = {}
        for tokens in serving.tokens:
            try:
                problem = wanted.problem(tokens)
            except ProblemError as error:
                source = serving.model_config if wanted.file.experts or not serving.missing_from else (
                    serving.missing_from)
                raise FormatError(f"{source}: {wanted.layer} with tokens={tokens}: {error}") from None
            known = choices is not None and bool(choices.propose(problem, gpu, 1))
            propose = choices.propose if choices is not None and known else model
            configuration, share = _choice(problem, gpu, propose, model)
            table[tokens] = listed(configuration, gpu, wanted.file.down)
            if not known:
                shares[tokens] = share
        return cls(table, len(table) - len(shares), shares)

    @property
    def least(self) -> float | None:
        """The least share of the best speed that a predicted entry is expected to reach; None if unknown."""
        shares = [share for share in self.shares.values() if share is not None]
        return min(shares) if shares and len(shares) == len(self.shares) else None

    def doubt(self, least: float) -> str:
        """Why a predicted entry may not reach the share `least` of the best speed; empty if all are expected to."""
        for tokens, share in self.shares.items():
            if share is None:
                return "the predictor does not estimate its confidence"
            if share < least:
                return (f"with {tokens} tokens, {100 * share:.0f} % of the best speed are expected, less than "
                        f"{100 * least:g} %")
        return ""


def _choice(problem: Problem, gpu: Device, propose: Propose, model: Propose) -> tuple[Configuration, float | None]:
    """The best proposal and its expected share of the best speed.

    Both products of experts share the sorted rows, so the second takes the first's BLOCK_SIZE_M. `model` answers for
    the first product where `propose` has no choice of it.
    """
    if dict(problem).get("half") != "down":
        return next(iter(propose(problem, gpu, 1).items()))
    up = Problem.make(problem.type, **{**dict(problem), "half": "up"})
    first = next(iter(propose(up, gpu, 1) or model(up, gpu, 1)))
    proposals = propose(problem, gpu, _DOWN_PROPOSALS)
    equal = (each for each in proposals.items() if each[0]["BLOCK_SIZE_M"] == first["BLOCK_SIZE_M"])
    return next(equal, (first, None))


def _usage(project: str, out: Path, paths: Sequence[Path]) -> Report:
    """The environment variable and the copying by which the server finds the files."""
    variable = "VLLM_TUNED_CONFIG_FOLDER" if project == "vllm" else "SGLANG_MOE_CONFIG_DIR"
    usage: Report = {}
    if any(path.parts[0] != LINEAR for path in paths):
        usage["environment"] = f"{variable}={shlex.quote(str(out.resolve()))}"
    if any(path.parts[0] == LINEAR for path in paths):
        usage["copy"] = f"{out / LINEAR}/*.json into {_INSTALLED[project]} of the installed package"
    return usage


_ASKS = ("force", "proposer")
_PATTERNS = ("E=*.json", "N=*.json", "configs/triton_*/E=*.json", "triton_*/E=*.json", f"{LINEAR}/N=*.json")
VLLM = Format(_PATTERNS, read=read_choices, write=partial(_write, "vllm"), asks=_ASKS, folder=True)
SGLANG = Format(_PATTERNS, read=read_choices, write=partial(_write, "sglang"), asks=_ASKS, folder=True)
