"""What groups have not read: who keeps how much, and how long Kafka itself will keep it.

Invariant: none of it decides anything. It is information for operators.
"""
