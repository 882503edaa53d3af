"""The call of CLBlast that both kernel families are: their parameters name the family."""

from __future__ import annotations

from seqtune.kernels.launches.implementation import LibraryCall

IMPLEMENTATION = LibraryCall(
    "clblast", "the call of CLBlastSgemm with all copies that it makes; program built before, once")
