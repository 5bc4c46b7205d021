"""The decision: pure functions of Spark DataFrames, then the limits of a cycle.

In comes a snapshot; out goes one row for each partition, with exactly one verdict and one reason.
"""
