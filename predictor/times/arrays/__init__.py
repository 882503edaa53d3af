"""The translator of measured times in NumPy, for predictions without PyTorch."""
