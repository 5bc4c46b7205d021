"""``retentiond delete-records``, KIP-107's command line.

In come an offsets file or bounds; out go one request, and an outcome for each partition.
"""
