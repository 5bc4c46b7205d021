"""What librdkafka does: it lists topics, and it deletes records.

In come partitions and the offsets to delete up to; out go names and ids of topics, and the low
watermark of each partition or why there is none.
"""
