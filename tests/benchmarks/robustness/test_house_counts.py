"""House counts: what exists several times is found by its form, whatever it is called."""

from __future__ import annotations

from pathlib import Path

from benchmarks.robustness.house_counts import counted, table

PLANTED = {
    "kernels/launches/call.py": """
class Anything:
    steps: tuple[CallStep, ...]
""",
    "kernels/sizes.py": """
SIZES = {"fp32": 4, "fp16": 2, "bf16": 2}
TEXT = "{'fp32': 4, 'fp16': 2, 'int8': 1}[dtype]"
FEW = {"fp32": 4, "fp16": 2}
""",
    "tuner/backends/runs.py": """
class Runs:
    def load(self): ...
    def poison(self): ...
    def run(self): ...
    def output(self): ...
    def close(self): ...

class Asked(Protocol):
    def run(self): ...
""",
    "benchmarks/rounds.py": """
def time(contestants, rounds):
    for _ in range(rounds):
        for index in generator.permutation(len(contestants)):
            seconds[index].append(contestants[index]())

def once(contestants):
    for index in generator.permutation(len(contestants)):
        seconds = contestants[index]()
"""}


def test_each_is_found_once(tmp_path: Path) -> None:
    for name, text in PLANTED.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "seqtune").mkdir()
    (tmp_path / "seqtune" / "kernels").symlink_to(tmp_path / "kernels")  # not counted twice
    counts = counted(tmp_path)
    assert {noun: len(places) for noun, places in counts.found.items()} == {
        "launch models": 1, "tables of element types": 2, "executables": 1, "protocols around them": 1,
        "loops of rounds in turns": 1}
    assert counts.found["executables"] == ["tuner/backends/runs.py: Runs"]
    assert counts.lines["kernels", "Python"] == sum(PLANTED[name].count("\n") for name in list(PLANTED)[:2])
    assert "| executables | 1 |" in table({"here": counts})
