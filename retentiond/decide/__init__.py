"""The decision: pure functions of Spark DataFrames, then the limits of a cycle.

In come a snapshot, the limits and the pause; out goes one row for each partition, with exactly
one verdict and one reason.
"""
