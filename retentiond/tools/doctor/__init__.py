"""Doctor: what would keep retentiond from working, and what to do about it.

In comes what was read of the cluster and this host; out goes a `Finding` for each check. Nothing is
changed, and one check that fails hides no other.
"""
