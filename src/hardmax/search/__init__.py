"""Find near-maximal inner products on the CPU; README.md here states the contract."""
