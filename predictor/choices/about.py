"""ChoicesAbout: the fields of seqtune.json of a checkpoint that has learned another tuner's choices."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from .seen_problems import LARGEST


class ChainAbout(BaseModel):
    """The chain of one kernel on one device in seqtune.json.

    `seen` holds, for each parameter, the indices of the values that training has seen; a single value needs no trees.
    `trees` is the number of the trees, which kernels of a group can share; `member` numbers the kernel in its group.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    device: str = Field(max_length=200)
    kernel: str = Field(max_length=200)
    trees: int = Field(ge=0, le=1000)
    member: int | None = Field(ge=0, le=1000)
    seen: tuple[tuple[int, ...], ...] = Field(max_length=100)


class ChoiceTreesAbout(BaseModel):
    """The fields of seqtune.json that describe the trees."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    chains: tuple[ChainAbout, ...] = Field(max_length=1000)
    weight: float = Field(ge=0, le=1)
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(max_length=1000)


class ChoicesAbout(BaseModel):
    """The fields of seqtune.json that describe learned choices."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    learned: int = Field(ge=1, le=LARGEST)  # bytes
    tables: dict[str, tuple[str, ...]] = Field(max_length=100)
    trees: ChoiceTreesAbout | None = None
