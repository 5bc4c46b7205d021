"""The guard, the request, and what became of it; without a line of the decision's code.

In come a plan, its reading and a way to read again; out goes the outcome of each deletion. The
intent is on disk before each request, and the outcome after it.
"""
