"""Everything on disk but the history: the audit log, the remembered groups, the pause, the lock.

In come what a cycle has seen, what it is about to delete, and the outcomes; out go the state with
which a cycle begins, and the entries of the audit log.
"""
