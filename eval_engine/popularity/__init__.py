"""Item popularity: counts of training positives, classes made of them."""
