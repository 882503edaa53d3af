"""Files that all folders of a language share, as they are copied into them."""
