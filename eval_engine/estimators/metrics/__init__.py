"""Metrics, one file each: what a user with some labelled pairs adds, whether these are a few random exposures or all candidates."""
