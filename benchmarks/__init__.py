"""Speed as ratios to a peer in the same run. `python -m benchmarks` prints every table; add names to choose."""
