"""Programs behind every table and figure: `python -m benchmarks` lists them, `python -m benchmarks NAME` runs one.

The folders are named after the subject of their programs (prediction, search, kernels, networks, speed, data, gpu,
robustness); `programs` is their table. `common` holds the code that several programs use.
"""
