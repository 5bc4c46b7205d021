"""Doctor: finds what would keep retentiond from working, and says what to do about it.

In comes what was read of the cluster and this host; out goes a `Finding` for each check. Nothing is
changed, and a check that fails keeps no other from running.
"""
