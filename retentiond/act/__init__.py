"""The guard, the request for deletion, and its outcome. This package uses no code of the decision.

In come a plan, its reading and a way to read again; out goes the outcome of each deletion. The
intent is on disk before each request, and the outcome after it.
"""
