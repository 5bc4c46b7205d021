"""What ``scripts/demo`` shows: retentiond at work on a real Kafka broker.

Producers write, groups read, the daemon deletes what all of them have read. Every consumer
keeps account of what it sees, and the demo fails when one of them misses a record.
"""
