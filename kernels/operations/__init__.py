"""Operations: the kinds of work that kernels do, one file each, and their table."""
