"""RetrainingOptions: how a checkpoint is adapted to new records, in minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....training.options import TrainingOptions
from ....trees.cost_trees import TreesOptions

FEWEST_REHEARSED = 5  # problems of each old device, without which little is kept of it
FURTHER = TreesOptions(rate=0.1)  # few trees, so a higher rate than in a first training


@dataclass(frozen=True, slots=True)
class RetrainingOptions(TrainingOptions):
    """The options of a retraining. The defaults suit 20 new problems of a device: three minutes of one core.

    There is no early stopping: new problems are too few to split off validation problems, and the average of the
    weights changes slowly.
    """

    epochs: int = 5
    rate: float = 4e-4  # lower than in a first training; with 1e-4 the first proposals of a new machine gained a sixth
    validation: float = 0.0
    extra: int = 200  # sampled problems of the new devices that the teacher labels
    examples: int = 1200  # of an epoch
    minutes: float = 4.5  # of the retraining; with the reading of the data, five
    rehearsed: int = 100  # training problems of each old device that are learned again, together with the new ones
    evaluated: int = 16  # held-out problems of each old device whose answers can change, such as one with new records
    trees: TreesOptions = FURTHER  # settings of the trees that continue the checkpoint's
    added: int = 40  # number of those trees; 60 were worse on new machines
    repeats: int = 4  # maximum number of times that an epoch has a new example, to have about as many as rehearsed ones

    def within(self, minutes: float) -> RetrainingOptions:
        """These options for another time limit: with less, fewer problems are rehearsed and sampled."""
        share = min(1.0, minutes / self.minutes)
        return replace(self, minutes=minutes, rehearsed=max(FEWEST_REHEARSED, round(share * self.rehearsed)),
                       extra=round(share * self.extra))
