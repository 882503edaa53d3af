"""Fit a checkpoint's confidence again: `python -m benchmarks.refit_confidence FOLDER --out FOLDER`.

Neither the translator nor the trees of the checkpoint change. The data set must be that of the training. Trees are
fitted up to five times: minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.common.program import OneLineParser, run_program


def main() -> None:
    """Run the command line."""
    from benchmarks.common.left_out import left_out
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.confidence_refitting import refit_confidence
    from seqtune.predictor.times.training_options import TrainingOptions

    parser = OneLineParser(__doc__)
    parser.add_argument("checkpoint", help="a name or folder")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the new checkpoint")
    parser.add_argument("--data", type=Path, help="the data set (Parquet) of the training, if not the shipped one")
    parser.add_argument("--left-out", metavar="NAME", help="the machine or runtime that the training lacked")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    data = read_dataset(given.data)
    if given.left_out is not None:
        data = left_out(data, given.left_out).without
    checkpoint = refit_confidence(Checkpoint.load(given.checkpoint), data, TrainingOptions(threads=given.threads),
                                  lambda step: print(step, file=sys.stderr, flush=True))
    print(checkpoint.save(given.out))


if __name__ == "__main__":
    run_program("refit_confidence", main)
