"""Programs behind the shipped data set and every table and figure: `python -m benchmarks.NAME`.

The folders are named after the subject of their programs (prediction, search, kernels, speed, data, gpu,
robustness, fleet), but a program is run by its own name alone: `python -m benchmarks.latency` runs
`benchmarks/speed/latency.py`. `common` holds the code that several programs use.
"""

from pathlib import Path

__path__ = [*__path__, *(str(Path(__file__).parent / folder) for folder in (
    "prediction", "search", "kernels", "speed", "data", "gpu", "robustness", "fleet"))]
