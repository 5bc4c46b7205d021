"""What earlier cycles saw: groups, external readers, their commits, and the ids of topics.

In come a snapshot and the memory of earlier cycles; out go the snapshot with that memory
(`recall`), and the changes to the memory (`changes`). `retentiond.state.groups` keeps it on disk.
"""
