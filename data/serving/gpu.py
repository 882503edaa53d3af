"""GPU by the name that PyTorch gives it, which vLLM and SGLang write into the names of their files."""

from __future__ import annotations

import re
from dataclasses import replace

from seqtune.errors import DeviceError
from seqtune.kernels.accelerators import ACCELERATORS, described, slug
from seqtune.kernels.device import Device

BACKEND = "triton"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()+._-]{0,79}")


def gpu_of(name: str) -> Device:
    """The GPU's facts, under the given name as its model: "NVIDIA H200" or, as in a file's name, "NVIDIA_H200".

    A short name of the table (h200, triton:h200) stands for the maker's name of it. A variant that the table lacks,
    such as NVIDIA H200 NVL, has the facts of the model whose name it begins with. Raises DeviceError.
    """
    if not _NAME.fullmatch(name.removeprefix(f"{BACKEND}:")):
        raise DeviceError(f"{name!r:.60} is not the name of a GPU, as torch.cuda.get_device_name() prints it")
    short = name.removeprefix(f"{BACKEND}:").lower()
    for key, entry in ACCELERATORS.items():
        if short == key or name == entry.model.replace(" ", "_"):
            name = entry.model
    words = slug(name).split("-")
    for count in range(len(words), 0, -1):
        device = described(BACKEND, "-".join(words[:count]))
        if device is not None:
            return replace(device, name=f"{BACKEND}:{slug(name)}", model=name)
    raise DeviceError(f"no facts are known here of the GPU {name!r:.60}; there are {', '.join(ACCELERATORS)}")
