"""The llvm backend: LLVM IR compiled by llvmlite, run on threads of this process."""
