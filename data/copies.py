"""Copies: one choice for one problem that files of several GPUs with the same chip hold.

Projects copy a file of one GPU for its sibling (MI300X and MI325X, L40 and L40S). Such rows say one thing, not two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.accelerators import chip_of

from .dataset import Dataset
from .record import Status


def choice_weights(data: Dataset) -> NDArray[np.float64]:
    """The weight of each row, (row,): n equal choices for a problem on GPUs of one chip weigh 1 / n each.

    Choices are equal if kernel and configuration are, whatever the toolchain. Rows that are no choices weigh 1.
    """
    weights = np.ones(len(data))
    chosen = np.flatnonzero((data.rows["status"] == Status.CHOSEN.value).to_numpy())
    if not len(chosen):
        return weights
    rows = data.rows.iloc[chosen]
    chips = rows["device"].astype(str).map({key: chip_of(device) for key, device in data.devices.items()})
    keys = [chips.to_numpy(), *(rows[name].astype(str).to_numpy() for name in ("problem", "kernel", "configuration"))]
    weights[chosen] = 1 / rows.groupby(keys)["device"].transform("size").to_numpy(np.float64)
    return weights


def copies_note(data: Dataset) -> tuple[str, ...]:
    """A note for the user that counts the copies, if there are any."""
    rows = len(data)
    copies = round(rows - float(choice_weights(data).sum()))
    if not copies:
        return ()
    return (f"{copies} of {rows} choices repeat one of a GPU with the same chip; together they weigh once",)
