"""The groups' lag: information for operators, never evidence for a deletion.

In come a snapshot and a plan; out go the records that one group alone keeps, and the time until
Kafka's own retention reaches records that a group has yet to read.
"""
