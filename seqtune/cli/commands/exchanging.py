"""The commands that exchange data with other tools: import and export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqtune.data.formats.table import described

from ...api.predictor_code import described_code
from ..application import AsJson, Force, JournalPath, answer, app
from ..arguments import parts

HoldOut = Annotated[list[str] | None, typer.Option(
    "--hold-out", metavar="PROBLEMS", show_default=False,
    help="Problems that no model may learn from: a named set, a file, a condition (experts=64), or a share (20%) of "
         "which none is near a problem that is left. May be repeated.")]


@app.command("import", epilog="Example: seqtune import miopen gfx906_60.db.bz2 --out labels.parquet")
def import_(
    source: Annotated[str, typer.Argument(
        metavar="FORMAT", help=f"The files' format. {described('read')}.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", help="The Parquet file.")],
    device: Annotated[list[str] | None, typer.Option(
        "--device", metavar="'DEVICE [FACT=VALUE...]'", show_default=False,
        help="The device, where the files do not name it; MIOpen's GPUs also with facts: "
             "'gfx1201_32 compute_units=64'.")] = None,
    keys: Annotated[str | None, typer.Option(
        "--keys", metavar="NAME,...", show_default=False,
        help="For triton: the names of the autotuner's key arguments, in order. For kernel-tuner: parameters with one "
             "value, or entries of the caches, that are features of the problem.")] = None,
    hold_out: HoldOut = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read tuning data of other tools into a data set (Parquet)."""
    from ... import api
    from .. import progress
    from ..tables import learning as tables

    report = api.import_data(source, paths, out, devices=device or (), keys=parts(keys),
                             hold_out=hold_out or (), force=force, warn=progress.note).to_json()
    answer(report) if as_json else tables.imported(report)


@app.command(epilog="Example: seqtune export --out records.parquet")
def export(
    out: Annotated[Path, typer.Option(
        "--out", help="The file to write; for vLLM, SGLang and the JSON of CLBlast the folder.")],
    journal: JournalPath = None,
    form: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", help=f"{described('write')}; {described_code()}.")] = "parquet",
    data: Annotated[Path | None, typer.Option(
        "--data", help="A data set with the configurations, instead of a journal or predictions. For c: one with "
                       "held-out problems, on which the code is compared with Python.  [default for c: shipped]",
        show_default=False)] = None,
    predictions: Annotated[Path | None, typer.Option(
        "--predictions", help="For MIOpen: lines that `predict --json` printed.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="For MIOpen: the GPU. For T4 and CLBlast: the device of the trials. For vLLM and SGLang: the "
                         "GPU as torch.cuda.get_device_name() prints it.", show_default=False)] = None,
    checkpoint: Annotated[str | None, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME",
        help="For --predictions without --data: the checkpoint with the tables of MIOpen's kernels. For vLLM and "
             "SGLang: the predictor. For c: what is written, with the kernels of --library alone.  "
             "[default: miopen; the one that answers for the GPU; default]", show_default=False)] = None,
    problem: Annotated[str | None, typer.Option(
        "--problem", help="For T4 and CLBlast: the problem of the trials, in quotes.", show_default=False)] = None,
    hold_out: HoldOut = None,
    model_config: Annotated[Path | None, typer.Option(
        "--model-config", help="vLLM, SGLang: the model's config.json.", show_default=False)] = None,
    missing_from: Annotated[Path | None, typer.Option(
        "--missing-from", metavar="LOG", show_default=False,
        help="vLLM, SGLang: a server's log; writes the files that it says are missing.")] = None,
    tp: Annotated[int, typer.Option("--tp", help="vLLM, SGLang: GPUs of tensor parallelism.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="vLLM, SGLang: GPUs of expert parallelism.")] = 1,
    dtype: Annotated[str | None, typer.Option(
        "--dtype", help="vLLM, SGLang: bf16, fp16, fp8_w8a8, int8_w8a8, int8_w8a16 or int4_w4a16.  "
                        "[default: as in the config.json]", show_default=False)] = None,
    triton_version: Annotated[str | None, typer.Option(
        "--triton-version", help="vLLM, SGLang: the server's version of Triton.", show_default=False)] = None,
    tokens: Annotated[str | None, typer.Option(
        "--tokens", metavar="1,2,4,...", show_default=False,
        help="vLLM, SGLang: numbers of tokens to tune for.  [default: 1 to 4096, as their own tuners]")] = None,
    min_confidence: Annotated[float | None, typer.Option(
        "--min-confidence", metavar="SHARE", show_default=False,
        help="vLLM, SGLang: leave out files with a prediction that is not expected to reach this share of the best "
             "speed (0.8).")] = None,
    prefix: Annotated[str | None, typer.Option(
        "--prefix", metavar="NAME", show_default=False,
        help="For c: what the public names begin with, so that one program can link several files.  "
             "[default: seqtune]")] = None,
    force: Force = False,
    as_json: AsJson = False,
    libraries: tuple[str, ...] = (),
) -> None:
    """Write records as a data set (Parquet) or for other tuners (T4), configurations for MIOpen, vLLM or SGLang, or a
    trained predictor as C."""
    from seqtune.data.serving.request import ServingRequest, token_counts

    from ... import api
    from ..tables import console

    serving = ServingRequest(model_config, missing_from, tp, ep, dtype, triton_version, token_counts(tokens),
                             min_confidence)
    report = api.export(out, form, journal=journal, data=data, predictions=predictions, device=device, problem=problem,
                        hold_out=hold_out or (), checkpoint=checkpoint, serving=serving, libraries=libraries,
                        prefix=prefix, force=force).to_json()
    answer(report) if as_json else console.fields(report)
