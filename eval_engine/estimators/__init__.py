"""Estimators: which labelled pairs count, with what weight, and a sentence that says what the result estimates."""
