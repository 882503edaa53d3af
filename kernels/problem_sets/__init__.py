"""Where problems come from: text and files, PyTorch modules, networks, samples."""
