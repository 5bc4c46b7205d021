"""The brokers' disks: information about space, never evidence that a group has read.

In come what the brokers say of their log directories, a snapshot and a plan; out go the bytes of
each partition, what deletions will free and have freed, and the partitions whose retention is
stuck.
"""
