"""Where partitions begin and end, where a time lies in them, and where a leader's epoch ended.

In come partitions, with a bound, a time or an epoch; out goes an offset for each, None where there
is none, or the `Failure` of its leader.

`retentiond.kafka.offsets.last_records` reads the positions that a program keeps as records of a
topic of its own.
"""
