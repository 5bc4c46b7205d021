"""Where partitions begin and end, where a time lies in them, and where a leader's epoch ended.

In come partitions, with a bound, a time or an epoch; out goes an offset for each, None where there
is none, or the `Failure` of its leader.
"""
