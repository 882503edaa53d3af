"""A network as one program: kernels and steps that are bound to memory and run in one OpenMP region."""
