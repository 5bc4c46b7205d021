"""The protocol messages that are written or read by hand; each says why, and when it can go.

In come the partitions and groups that a request is about, and the bytes of a response; out go
requests for kafka-python to send, and responses as values or columns.
"""
