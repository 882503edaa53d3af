"""Steps of a network between its tuned kernels, generated as LLVM IR: pointwise, rows, reductions, pooling, gather."""
