"""The guard, the request, and what became of it; without a line of the decision's code.

In come a plan, its reading and a way to read again; out goes what became of each deletion, on disk
before and after its request.
"""
