"""LabelsAbout: the fields of seqtune.json of a checkpoint that has learned MIOpen's labels."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class ChainAbout(_About):
    """The chain of one kernel on one device."""

    device: str = Field(max_length=200)
    kernel: str = Field(max_length=200)
    trees: int = Field(ge=0, le=1000)  # the number of the trees, which kernels of a group can share
    member: int | None = Field(ge=0, le=1000)  # the kernel's number in its group
    seen: tuple[tuple[int, ...], ...] = Field(max_length=100)  # by parameter: the indices of the values in the labels


class TreesAbout(_About):
    """The chains, and their weight against the translator; `weights` is the same by kernel, where it differs."""

    chains: tuple[ChainAbout, ...] = Field(max_length=1000)
    weight: float = Field(ge=0, le=1)
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(max_length=1000)


class LabelsAbout(_About):
    """The parts of a checkpoint that come from labels, beside its translator."""

    learned: int = Field(ge=1, le=64 << 20)  # bytes of the filter of learned problems
    tables: dict[str, Annotated[tuple[str, ...], Field(max_length=1000)]] = Field(max_length=100)
    trees: TreesAbout | None = None
