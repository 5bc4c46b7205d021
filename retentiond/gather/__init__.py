"""One reading of everything that a decision rests on, frozen.

In come a `Kafka` and the policy; out goes a `retentiond.snapshot.Snapshot`, in which what could not
be read is a `Failure` in its place.
"""
