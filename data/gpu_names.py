"""GPU by the name that PyTorch gives it, which servers and tuners write into their files and file names."""

from __future__ import annotations

import re
from dataclasses import replace

from seqtune.errors import DeviceError
from seqtune.kernels.devices.accelerators import ACCELERATORS, described, similar_names, slug
from seqtune.kernels.devices.device import Device

BACKEND = "triton"
_MAKERS = ("NVIDIA", "AMD", "Tesla")  # first words of the names that PyTorch gives
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()+._-]{0,79}")


def gpu_of(name: str) -> Device:
    """The facts of the GPU of this name, which becomes its model: "NVIDIA H200" or, as in a file's name, "NVIDIA_H200".

    A short name of the table (h200, triton:h200) and another spelling (nvidia h200) stand for the maker's name of it. A
    variant that the table lacks, such as NVIDIA H20-9e, has the facts of the model whose name it begins with; servers
    look for files under its exact name, so another spelling of it is refused. Raises DeviceError.
    """
    name = name.removeprefix(f"{BACKEND}:")
    if not _NAME.fullmatch(name):
        raise DeviceError(f"{name!r:.60} is not the name of a GPU, as torch.cuda.get_device_name() prints it")
    for entry in ACCELERATORS.values():
        if _folded(name) == _folded(entry.model):
            name = entry.model
    words = slug(name).split("-")
    for count in range(len(words), 0, -1):
        device = described(BACKEND, "-".join(words[:count]))
        if device is None:
            continue
        if _exact(name, device.model):
            return replace(device, name=f"{BACKEND}:{slug(name)}", model=name)
        if count == len(words):
            return device
        raise DeviceError(f"{name!r:.60} is not spelled as torch.cuda.get_device_name() prints it "
                          f"(the nearest known GPU is {device.model!r})")
    raise DeviceError(f"no facts are known here of the GPU {name!r:.60}; known ones are {similar_names(name)} "
                      "(seqtune devices --all lists them)")


def _folded(name: str) -> str:
    return name.replace("_", " ").lower()


def _exact(name: str, model: str) -> bool:
    """Whether a name begins with a maker and spells the words that it shares with a known model alike."""
    words, known = re.split("[ _-]", name), re.split("[ _-]", model)
    lower = {word.lower() for word in known}
    return words[0] in _MAKERS and all(word in known for word in words if word.lower() in lower)
