"""Everything on disk but the history: the audit log, the remembered groups, the pause, the lock.

In come what a cycle has seen, what it is about to delete, and what became of that; out go what a
cycle begins with, and the audit log for whoever asks.
"""
