"""The kernel of each layer of a network: predicted, remembered, saved, or left to PyTorch."""
