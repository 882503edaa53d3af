"""The solvers of AMD's MIOpen: their parameters, constraints and the GPUs that they run on."""
