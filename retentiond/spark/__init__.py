"""Spark at work: the session, its JVM, and how both are made small and quick.

In come a master and properties; out goes a session that answers, a new one where the last has died.
"""
