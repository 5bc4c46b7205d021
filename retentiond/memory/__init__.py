"""What earlier cycles saw: groups, readers, topics' ids, ends of partitions.

In come a snapshot and what is remembered; out go the snapshot with it (`recall`), and what is to be
remembered from now on (`changes`), which `retentiond.state.groups` keeps on disk.
"""
