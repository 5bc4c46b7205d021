"""Tell: what a cycle did, in one vocabulary for logs, metrics, page, table and JSON.

In comes the immutable report of a cycle; out go a log line, metrics, documents and sentences.
"""
