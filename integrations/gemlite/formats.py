"""gemlite's tuned configurations: its JSON files for one GPU each, and tables of several GPUs.

A JSON file maps the kernel's name to an object from a key, `"(m, n, k, group, elements, type)"`, to settings: `m` is
the number of rows rounded up as gemlite does, `group` the weights that share a scale, `elements` the weights in a
stored word, and `type` a hundred times the code of the activations' type plus the bits of a weight. A Parquet table has
columns of these names and `gpu`, the GPU as PyTorch names it. Rows have the status `chosen`: there are no times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from seqtune.data.formats.declared_rows import DeclaredRow, imported, in_their_spaces
from seqtune.data.formats.format import Format, ImportResult, Report, check_columns, first_reason, report_of
from seqtune.data.gpu_names import gpu_of
from seqtune.data.json_content import read_object
from seqtune.data.parquet_file import read_all
from seqtune.errors import DeviceError, FormatError, MisuseError, ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Setting
from seqtune.kernels.problem import Problem

from .kernels.library import KERNELS, LIBRARY

MOST_ROWS = 1_000_000
KEY = ("m", "n", "k", "group", "elements", "type_id")
_KEY = re.compile(r"\(([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9})\)")
_NAMES = {name.partition(".")[2].upper(): name for name in KERNELS}  # gemlite's name of a kernel -> ours
_INPUTS = {1: "fp16", 2: "bf16", 3: "fp8", 4: "int8", 12: "fp8"}  # codes of gemlite's DType; 12: as AMD rounds it
_HALVES = (1, 2)  # codes of types of 16 bits
_WEIGHTS = {16: "", 8: "", 4: "int4", 2: "int2", 1: "int1"}  # bits; empty: the type of the activations
# Settings that are no parameters, with their only values in the declared spaces; BLOCK_SIZE_M and SPLIT_K are
# parameters of some kernels, and have these values for the others.
_FIXED = {"GROUP_SIZE_M": 8, "dot_prod_mode": 0, "num_ctas": 1, "num_buffers_warp_spec": 0, "num_consumer_groups": 0,
          "reg_dec_producer": 0, "reg_inc_consumer": 0, "matrix_instr_nonkdim": 16, "BLOCK_SIZE_M": 1, "SPLIT_K": 1}
_FOLLOWING = ("NUM_STAGES", "EVEN_M", "EVEN_N", "EVEN_K")  # written by newer versions, and equal to others' values


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    choices: list[DeclaredRow] = []
    reports: list[Report] = []
    for file in files:
        skipped: Counter[str] = Counter()
        if file.suffix == ".parquet" and devices:
            raise MisuseError(f"{file} names its GPUs; leave out --device")
        rows = _table(file, skipped) if file.suffix == ".parquet" else _json(file, devices, skipped)
        valid = in_their_spaces([choice for device, kernel, key, settings in rows
                                 if (choice := _choice(device, kernel, key, settings, skipped)) is not None], skipped)
        reports.append(report_of(file, len(valid), skipped))
        choices += valid
    if not choices:
        raise FormatError(f"{files[0]} holds no configuration of gemlite that is valid here{first_reason(reports)}")
    return imported(choices, "gemlite: " + ", ".join(file.name for file in files), reports)


GEMLITE = Format(("*.json", "*.parquet"), read=_read, devices=1)

_Row = tuple[Device, str, tuple[int, ...], Mapping[str, object]]  # GPU, gemlite's name of the kernel, key, settings


def _json(path: Path, devices: Sequence[str | Device], skipped: Counter[str]) -> Iterator[_Row]:
    """The rows of a JSON file. Raises FormatError, and MisuseError if neither file nor user names the GPU."""
    content = read_object(path)
    if not content or not all(isinstance(entries, dict) for entries in content.values()):
        raise FormatError(f"{path} is not an object of gemlite's kernels")
    device = _named_gpu(path, devices)
    for name, entries in content.items():
        for text, settings in entries.items():
            key = _KEY.fullmatch(text)
            if key is None or not isinstance(settings, dict):
                skipped["a key that is not (m, n, k, group, elements, type)"] += 1
            else:
                yield device, str(name), tuple(map(int, key.groups())), settings


def _named_gpu(path: Path, devices: Sequence[str | Device]) -> Device:
    """The GPU that the user named, or else the file's name (`h100.json`, `6000_ada.json`)."""
    given = devices[0] if devices else path.stem
    try:
        return given if isinstance(given, Device) else gpu_of(given)
    except DeviceError as error:
        if devices:
            raise
        raise MisuseError(f"{path} does not name its GPU; name it, for example --device h100 ({error})"[:300]) from None


def _table(path: Path, skipped: Counter[str]) -> Iterator[_Row]:
    """The rows of a Parquet table. Raises FormatError."""
    names, values = read_all(path, MOST_ROWS)
    check_columns(path, names, ("gpu", "kernel", *KEY), "table of gemlite's configurations")
    columns = dict(zip(names, values, strict=True))
    gpus: dict[object, Device | None] = {}
    others = [name for name in columns if name not in ("gpu", "kernel", *KEY)]
    for row in zip(*(columns[name] for name in ("gpu", "kernel", *KEY, *others)), strict=True):
        gpu, kernel, key, settings = row[0], row[1], row[2:2 + len(KEY)], row[2 + len(KEY):]
        if gpu not in gpus:
            gpus[gpu] = _known_gpu(gpu)
        device = gpus[gpu]
        if device is None:
            skipped["no facts are known here of the GPU"] += 1
        elif not all(isinstance(number, int) for number in key):
            skipped["a key that is not (m, n, k, group, elements, type)"] += 1
        else:
            yield device, str(kernel), key, {name: value for name, value in zip(others, settings, strict=True)
                                             if value is not None}


def _known_gpu(name: object) -> Device | None:
    try:
        return gpu_of(str(name))
    except DeviceError:
        return None


def _choice(device: Device, name: str, key: tuple[int, ...], written: Mapping[str, object],
            skipped: Counter[str]) -> DeclaredRow | None:
    if name not in _NAMES:
        skipped[f"no kernel {name!r:.30} of gemlite is declared"] += 1
        return None
    kernel = LIBRARY.kernel(_NAMES[name])
    try:
        problem = _problem(*key)
        settings = _settings(kernel, device, written)
    except (ProblemError, FormatError) as error:
        skipped[str(error).partition(" (found")[0][:160]] += 1
        return None
    return DeclaredRow(device, problem, kernel, settings)


@cache
def _problem(m: int, n: int, k: int, group: int, elements: int, type_id: int) -> Problem:
    """The problem of a key. Raises ProblemError for unknown types."""
    code, bits = divmod(type_id, 100)
    if code not in _INPUTS or bits not in _WEIGHTS or (bits == 16 and code not in _HALVES):
        raise ProblemError(f"the types {type_id} are not known here")
    own = "int8" if bits == 8 and code in _HALVES else _INPUTS[code]  # 8-bit weights of 16-bit activations are integers
    return Problem.make("quantized_gemm", m=m, n=n, k=k, dtype=_INPUTS[code], weight_dtype=_WEIGHTS[bits] or own,
                        packed=elements, scale_n=1, scale_k=group)


def _settings(kernel: Kernel, device: Device, written: Mapping[str, object]) -> dict[str, Setting]:
    """The settings of a kernel's parameters. Raises FormatError if others have unusual values, or one is missing."""
    values: dict[str, Setting] = {"waves_per_eu": 0}
    for name, value in written.items():
        if name in _FOLLOWING:
            continue
        if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
            raise FormatError(f"{name:.30}={value!r:.30} is not a whole number")
        if name in kernel.by_name:
            values[name] = int(value)
        elif value != _FIXED.get(name):
            raise FormatError(f"{kernel.name} is declared without {name:.30}={value!r:.30}")
    missing = next((name for name in kernel.by_name if name not in values), None)
    if missing is not None:
        raise FormatError(f"no value of {missing}")
    return {name: values[name] for name in kernel.by_name}
