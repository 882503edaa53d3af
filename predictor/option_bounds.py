"""Bounds of options: types of the fields of dataclasses of options, which a recipe's numbers are checked by."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=1, le=10**9)]
Number = Annotated[int, Field(ge=0, le=10**9)]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(ge=0, lt=1)]  # less than the whole
Positive = Annotated[float, Field(gt=0, le=1000)]
