"""Calls of CLBlast, the tuned OpenCL BLAS library, with parameters that replace those of its database."""
