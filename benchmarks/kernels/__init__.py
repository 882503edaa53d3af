"""How fast the tuned kernels are, beside other libraries."""
