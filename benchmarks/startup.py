"""Prints how long the program takes to start: `python -m benchmarks.startup [--checkpoint FOLDER]`.

The least of several fresh processes, in seconds; and a warm prediction (one problem, beam 5, one thread), in this one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import seqtune

PROBLEM = "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1"


def least(arguments: list[str], times: int) -> float:
    """Seconds of a fresh process."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    predict = ["-m", "seqtune", "predict", PROBLEM, "--checkpoint", given.checkpoint]
    for name, arguments in (
            ("an empty interpreter", ["-c", "pass"]), ("import seqtune", ["-c", "import seqtune"]),
            ("seqtune --help", ["-m", "seqtune", "--help"]), ("seqtune devices", ["-m", "seqtune", "devices"]),
            ("seqtune predict", predict)):
        print(f"{name:25} {least(arguments, given.times):7.3f} s")

    import torch

    torch.set_num_threads(1)
    found = []
    for number in range(50):
        start = time.perf_counter()
        seqtune.predict(f"conv2d n=1 c=64 h={56 + number} w=56 k=64 r=3 s=3 pad=1", checkpoint=given.checkpoint)
        found.append(time.perf_counter() - start)
    print(f"{'warm, each shape new':25} {sorted(found[5:])[len(found[5:]) // 2] * 1e3:7.1f} ms (median)")


if __name__ == "__main__":
    main()
