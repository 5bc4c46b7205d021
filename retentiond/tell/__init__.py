"""Reports what a cycle did, in one vocabulary for logs, metrics, page, table and JSON.

In come the immutable report of a cycle, or a plan and its snapshot; out go a log line, metrics,
documents and sentences.
"""
