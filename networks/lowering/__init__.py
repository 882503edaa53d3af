"""The translation of PyTorch's operations into the nodes of a network."""
