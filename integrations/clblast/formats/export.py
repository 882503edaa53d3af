"""Export for CLBlast: the JSON files of its tuners, and rows of its C++ database.

The JSON files are those that CLBlast's tuners write (`src/tuning/tuning.cpp`) and that `scripts/database/database.py`
reads, one for each kernel. The rows belong into `src/database/kernels/*/*_32.hpp`; each has 16 numbers, the parameters
in alphabetical order and zeros.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from seqtune.data.dataset import Dataset
from seqtune.data.formats.format import DriverFacts, Format, Report
from seqtune.data.journal.journal import Journal
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import write_together, write_whole
from seqtune.kernels.problem import Problem

from .results import DIRECT, XGEMM, KernelResults, results_of_all, results_of_one, times_of

PRECISION = 32
# The variation of each tuner that has the most parameters, and the sizes that it tunes for unless told otherwise.
_VARIATIONS = {"xgemm": ("xgemm_2", 1024), "xgemm_direct": ("xgemm_direct_2", 256), "gemm_routine": ("gemm_routine", 0)}
_ROW = 16  # numbers in a row of the C++ database
_NAME = 50  # characters of a device's name in a row
# CLBlast's names of vendors (`src/clpp11.hpp` and `src/utilities/device_mapping.hpp`); others are kept.
_VENDORS = {"GenuineIntel": "Intel", "Intel(R) Corporation": "Intel", "Advanced Micro Devices, Inc.": "AMD",
            "NVIDIA Corporation": "NVIDIA"}
_TYPES = {"cpu": "CPU", "gpu": "GPU", "accelerator": "Accelerator"}


def results_for(journal: Path | None, data: Path | None, device: str | Device | None,
                problem: Problem | None) -> tuple[Device, list[KernelResults]]:
    """The device and the results of a data set or else of a journal: of the problem, else of all products.

    Raises SeqtuneErrors.
    """
    with ExitStack() as stack:
        if data is not None:
            known = Dataset.read(data)
        else:
            assert journal is not None
            known = Dataset.from_journal(stack.enter_context(Journal(journal)))
    chosen = known.rows["kernel"].isin((XGEMM, DIRECT))
    rows = Dataset(known.rows[chosen], known.devices, known.known_problems)
    used = {key: one for key, one in known.devices.items() if key in set(rows.rows["device"])}
    if not used:
        raise MisuseError(f"{data or journal} has no times of CLBlast's kernels; `seqtune tune ... "
                          "--library clblast` measures some")
    wanted = device.key if isinstance(device, Device) else device
    present = Dataset(rows.rows, used, rows.known_problems).device(wanted)
    times = times_of(rows.on(present.key).records())
    if problem is None:
        return present, results_of_all(times)
    if problem not in times:
        raise MisuseError(f"no time of {problem.brief()} on {present.name}; without --problem, the parameters "
                          "are the best ones of all products")
    return present, results_of_one(times[problem], problem)


def tuner_file(result: KernelResults, facts: Mapping[str, str | int]) -> str:
    """The text of a file as the tuner of a kernel writes it."""
    family, standard = _VARIATIONS[result.family]
    best, seconds = result.results[0]
    fields: dict[str, object] = {
        "kernel_family": family, "precision": str(PRECISION), "best_kernel": result.kernel,
        "best_time": f"{1e3 * seconds:.6f}",
        "best_parameters": " ".join(f"{name}={value}" for name, value in best.items())}
    if standard:
        m, n, k = result.sizes or (standard,) * 3
        fields |= {"arg_m": str(m), "arg_n": str(n), "arg_k": str(k), "arg_alpha": "2.000000", "arg_beta": "2.000000"}
    fields |= {name: str(value) for name, value in facts.items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in fields.items()]
    results = ",\n".join(_result(result.kernel, parameters, time) for parameters, time in result.results)
    return "{\n" + "".join(lines) + '  "results": [\n' + results + "\n  ]\n}\n"


def _result(kernel: str, parameters: Mapping[str, int], seconds: float) -> str:
    listed = dict(sorted({**parameters, "PRECISION": PRECISION}.items()))
    return (f'    {{\n      "kernel": {json.dumps(kernel)},\n      "time": {1e3 * seconds:.6f},\n'
            f'      "parameters": {json.dumps(listed)}\n    }}')


def cpp_rows(results: Sequence[KernelResults], facts: Mapping[str, str | int], title: str) -> str:
    """The rows of the C++ database with the best parameters, each below the file and the section that it belongs to."""
    lines = [f"// {title}\n"]
    for result in results:
        numbers = [result.best[name] for name in sorted(result.best)]
        numbers += [0] * (_ROW - len(numbers))
        name = str(facts["clblast_device_name"])[:_NAME]
        lines.append(
            f"\n// src/database/kernels/{result.family}/{result.family}_{PRECISION}.hpp: "
            f'kDeviceType{_TYPES.get(str(facts["clblast_device_type"]).lower(), "All")}, '
            f'"{facts["clblast_device_vendor"]}", "{facts["clblast_device_architecture"] or "default"}"\n'
            f"// {', '.join(sorted(result.best))}\n"
            f'          {{ Name{{"{name:<{_NAME}}"}}, Params{{ {", ".join(map(str, numbers))} }} }},\n')
    return "".join(lines)


def device_facts(device: Device, driver: Mapping[str, str | int]) -> dict[str, str | int]:
    """The fields of a tuner's file that describe the device; `driver` holds its driver's facts, if it is present.

    A device that is not present gets the names in its facts, which may differ from those that CLBlast looks up.
    """
    vendor = str(driver.get("device_vendor", device.model.split()[0] if device.model else device.architecture))
    kind = str(driver.get("device_type", "CPU" if device.threads else "GPU"))
    name = str(driver.get("device", device.model))
    architecture = str(driver.get("clblast_device_architecture", ""))
    return {"clblast_device_type": kind, "clblast_device_vendor": _VENDORS.get(vendor, vendor),
            "clblast_device_architecture": architecture, "clblast_device_name": name, "device": name,
            "platform_vendor": driver.get("platform_vendor", ""),
            "platform_version": driver.get("platform_version", ""),
            "device_vendor": vendor, "device_type": kind, "device_core_clock": driver.get("device_core_clock", 0),
            "device_compute_units": device.compute_units, "device_extra_info": ""}


def _write_json(out: Path, *, journal: Path | None, data: Path | None, device: str | Device | None,
                problem: Problem | None, force: bool, driver_facts: DriverFacts) -> Report:
    """Write one file for each kernel into a folder. Raises MisuseError if one of them exists, unless `force`."""
    present, results = results_for(journal, data, device, problem)
    facts = device_facts(present, driver_facts(present))
    texts = {out / f"clblast_{_VARIATIONS[result.family][0]}_{PRECISION}.json": tuner_file(result, facts)
             for result in results}
    existing = [path for path in texts if path.exists() or path.is_symlink()]
    if existing and not (force and all(path.is_file() for path in existing)):
        raise MisuseError(f"{existing[0]} exists; --force overwrites files")
    write_together(texts)
    return {"device": present.name, "files": [{"file": path.name, "entries": len(result.results)}
                                              for path, result in zip(texts, results, strict=True)]}


def _write_rows(out: Path, *, journal: Path | None, data: Path | None, device: str | Device | None,
                problem: Problem | None, driver_facts: DriverFacts) -> Report:
    """Write the rows of the C++ database into one file."""
    present, results = results_for(journal, data, device, problem)
    subject = "all measured products" if problem is None else problem.brief()
    text = cpp_rows(results, device_facts(present, driver_facts(present)),
                    f"Parameters of CLBlast for {subject} on {present.model or present.name}, by seqtune.")
    write_whole(out, text)
    return {"device": present.name, "rows": len(results)}


JSON = Format((), write=_write_json, asks=("force", "driver_facts"), folder=True)
CPP = Format((), write=_write_rows, asks=("driver_facts",))
