"""Code that several programs use."""
