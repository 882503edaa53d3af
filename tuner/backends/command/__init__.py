"""The command backend: kernels that are programs, which time themselves and print JSON."""
