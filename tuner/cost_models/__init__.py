"""Cost models rank configurations without running them."""
