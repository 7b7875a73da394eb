"""Statistics over users: numpy and scipy only, from sums that merge."""
