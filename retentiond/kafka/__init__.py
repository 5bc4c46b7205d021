"""The interface to Kafka: the only code that imports a Kafka client.

In come questions about topics, groups, offsets and disks, and the one request that deletes; out go
values of `retentiond.kafka.interface`, with a `Failure` in the place of whatever could not be read.
"""
