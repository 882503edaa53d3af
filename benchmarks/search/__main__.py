"""Run the comparison on recorded spaces: `python -m benchmarks.search`."""

from benchmarks.common.program import run_program
from benchmarks.search.recorded import main

run_program("search", main)
