"""The library `miopen`: the tunable solvers of AMD's MIOpen, which runs them itself."""

from __future__ import annotations

from seqtune.kernels.libraries.library import Library

LIBRARY = Library("miopen", "seqtune.integrations.miopen.kernels.solver:KERNELS",
                  meaning="tunable solvers of AMD's MIOpen", backends=("miopen",), runs=False,
                  checkpoint="miopen")
