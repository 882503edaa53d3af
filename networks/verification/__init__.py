"""The verification of a network within a time budget, and its comparison with what PyTorch makes of it."""
