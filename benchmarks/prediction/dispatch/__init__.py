"""How well a few kernels and their rule serve shapes that nobody chose: a module per question."""
