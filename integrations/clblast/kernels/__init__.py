"""CLBlast, the tuned OpenCL BLAS library: its two kernel families for matrix products, with their parameters."""
