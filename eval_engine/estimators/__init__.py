"""Estimators: which labelled pairs count, with what weight, and in words what the result is an estimate of."""
