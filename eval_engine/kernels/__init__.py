"""Array kernels over scores and rank facts: numpy, scipy and numba only, no table, no session."""
