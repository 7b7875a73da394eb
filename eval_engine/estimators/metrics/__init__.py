"""Metrics, one file each: the terms of a user from labelled pairs, be they random exposures or all candidates."""
