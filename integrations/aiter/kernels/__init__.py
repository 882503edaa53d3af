"""Kernels of AMD's aiter: tables of what is compiled, whose words are the parts of the kernels' names."""
