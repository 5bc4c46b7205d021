"""What groups have not read, for information only, never evidence.

In come a snapshot and a plan; out go the records that one group alone keeps, and for how long
Kafka's own retention leaves a group what it has yet to read.
"""
