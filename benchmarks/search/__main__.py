"""`python -m benchmarks.search` runs the comparison on recorded spaces."""

from benchmarks.common.program import run_program
from benchmarks.search.recorded import main

run_program("search", main)
