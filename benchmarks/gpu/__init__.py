"""One GPU: the check of its kernels, training data, the comparison with libraries, and the page of results."""
