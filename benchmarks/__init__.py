"""Programs behind the shipped data set and every table and figure: `python -m benchmarks.NAME`.

A program lies in the folder of what it shows (prediction, search, kernels, speed, data) and is called by its own name:
`python -m benchmarks.latency` runs `benchmarks/speed/latency.py`. `common` holds what the programs share.
"""

from pathlib import Path

__path__ = [*__path__, *(str(Path(__file__).parent / room) for room in (
    "prediction", "search", "kernels", "speed", "data"))]
