"""The translator's layers: in PyTorch for training, and in NumPy with compiled products for answers."""
