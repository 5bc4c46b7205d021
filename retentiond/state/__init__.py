"""Everything on disk: the audit log, the remembered groups, the pause, the lock.

In come what a cycle has seen, what is about to be done and what was; out go what a cycle begins
with, and the audit log for whoever asks.
"""
