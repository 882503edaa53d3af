"""The table of operations that can be translated: PyTorch's operation -> function that makes the nodes."""

from __future__ import annotations

from typing import Any

from .layers import LAYERS
from .lowering import Maker
from .pointwise import POINTWISE
from .rows import ROWS
from .views import VIEWS

MAKERS: dict[Any, Maker] = {**LAYERS, **POINTWISE, **VIEWS, **ROWS}
