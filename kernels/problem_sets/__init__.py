"""Sources of problems: text and files, PyTorch modules, ONNX models, networks, samples."""
