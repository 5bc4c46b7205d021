"""What the scripts, the tests and the benchmarks share; not part of the shipped package."""
