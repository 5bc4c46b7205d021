"""The brokers' disks, for information only, never evidence.

In come what the brokers say of their log directories, a snapshot and a plan; out go bytes by
partition, what deletions free and have freed, and whose retention is stuck.
"""
