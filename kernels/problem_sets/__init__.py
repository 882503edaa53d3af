"""Sources of problems: text and files, PyTorch modules, networks, samples."""
