"""What doors of other tools propose for a GPU that is not here: `python -m tests.support.doors NAME ...`, in JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

GPU = "triton:h200"


def triton() -> list[object]:
    """Configurations that triton.autotune gets for two keys, three for each."""
    import numpy as np

    import seqtune.triton

    prune = seqtune.triton.prune("gemm", m="M", n="N", k="K", device=GPU, top=3)["early_config_prune"]
    return [[config.all_kwargs() for config in prune(seqtune.triton.space("gemm"), {
        "a": np.zeros(1, np.float16), "M": m, "N": 1024, "K": 256})] for m in (7, 512)]


def helion() -> list[object]:
    """Seeds of a search, of which the first is what `autotuner` answers."""
    import torch

    import seqtune.helion
    from tests.support.helion.kernels import product

    operands = (torch.empty(512, 1024, dtype=torch.float16), torch.empty(1024, 768, dtype=torch.float16))
    return [dict(config) for config in seqtune.helion.seed_configs(product, operands, 3, device=GPU)]


def inductor() -> list[object]:
    """Settings of the choice that Inductor is left with, and the identity that its caches keep."""
    import pytest
    import torch

    import seqtune.inductor
    from tests.support.inductor.lowering import lowered

    matrices = [(torch.float16, (512, 1024), (1024, 1)), (torch.float16, (1024, 768), (768, 1))]
    with pytest.MonkeyPatch.context() as patch, seqtune.inductor.choosing(alone=True, device=GPU) as choices:
        (choice,) = lowered(torch.ops.aten.mm.default, matrices, patch)
        return [dict(choice.annotations["seqtune"].settings), choices.uuid()]


def serving(project: str) -> list[object]:
    """Names and contents of all files of a model."""
    from seqtune.api.exchanging import serve_files
    from tests.support.serving.models import write_model

    with tempfile.TemporaryDirectory() as folder:
        model, out = write_model(Path(folder), "deepseek-v3"), Path(folder) / "out"
        serve_files(out, project, device="NVIDIA H200", model_config=model, tp=8, tokens=(1, 64))
        return [[path.relative_to(out).as_posix(), path.read_text()] for path in sorted(out.rglob("*.json"))]


# Name of a door -> what it proposes, and the packages that it needs
DOORS: dict[str, tuple[Callable[[], list[object]], tuple[str, ...]]] = {
    "triton": (triton, ("triton",)),
    "helion": (helion, ("torch", "triton", "helion")),
    "inductor": (inductor, ("torch", "triton")),
    "vllm": (lambda: serving("vllm"), ()),
    "sglang": (lambda: serving("sglang"), ()),
}


def answers_of(names: Iterable[str]) -> dict[str, list[object]]:
    """What the named doors propose."""
    return {name: DOORS[name][0]() for name in names}


if __name__ == "__main__":
    print(json.dumps(answers_of(sys.argv[1:])))
