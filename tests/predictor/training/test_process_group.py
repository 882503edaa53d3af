"""Trainings that several processes share, as torchrun starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seqtune.errors import MisuseError
from seqtune.predictor.training.loop import Course, fit
from seqtune.predictor.training.process_group import ProcessGroup, rank_here
from tests.predictor.training import test_loop

ROOT = Path(__file__).parents[3]
SCRIPT = """
import os, socket, sys
from dataclasses import replace
from pathlib import Path
import torch
import torch._dynamo  # an optimizer would load it in each process
from seqtune.predictor.training.loop import Course, Validation, fit
from tests.predictor.training.test_loop import Options, batches, line
folder = Path(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as free:
    os.environ["MASTER_PORT"] = str(free.getsockname()[1])
other = os.fork()
rank = int(other == 0)
os.environ["RANK"] = str(rank)
reports = []
validate = lambda average: Validation({"score": float(rank)}, float(rank) + average.weight.item())
fit(line(), Course(batches, until=3), Options(), on_progress=reports.append)
state = fit(line(), Course(batches, validate), replace(Options(), state=folder / "state"), "same")
torch.save({"weights": list(state.model.parameters()), "loss": state.history[-1]["loss"], "reports": len(reports),
            "score": state.history[-1]["score"]}, folder / f"{rank}.pt")
if other:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""  # a process that forks, since each one that starts anew takes seconds to load PyTorch


def test_the_parts_of_a_batch_cover_it_and_a_process_without_a_part_counts_nothing() -> None:
    for size in (1, 2, 3, 7):
        for count in (1, 2, 5, 8):
            parts = [ProcessGroup(rank, size).part(count) for rank in range(size)]
            counted = [number for part, share in parts if share for number in range(count)[part]]
            assert counted == list(range(count))
            assert sum(share for _, share in parts) == pytest.approx(1)
            assert all(part.start < part.stop for part, _ in parts)


@pytest.mark.parametrize(("variables", "says"), [
    ({"WORLD_SIZE": "2"}, "MASTER_ADDR"), ({"WORLD_SIZE": "2", "RANK": "2"}, "not those of torchrun"),
    ({"WORLD_SIZE": "x", "RANK": "0"}, "not those of torchrun")])
def test_half_of_torchruns_variables_are_refused(variables: dict[str, str], says: str,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {"RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"} if says.startswith("not") else {}
    for name, value in {**whole, **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(MisuseError, match=says):
        rank_here()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2",
                          "MASTER_ADDR": "127.0.0.1"})
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    alone = fit(test_loop.line(), Course(test_loop.batches), test_loop.Options())
    for one, other, expected in zip(first["weights"], second["weights"], alone.model.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.allclose(one, expected, atol=1e-6)
    assert first["loss"] == second["loss"] == pytest.approx(alone.history[-1]["loss"], rel=1e-5)
    assert (first["reports"], second["reports"]) == (3, 0)  # process 0 alone reports
    assert first["score"] == second["score"] == 0.0  # and its validation counts
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["state.safetensors"]
