"""Groups of all kinds: the listing and the proof that it is complete, commits and members.

In come the cluster's connections; out go the listing, the state of the coordinators, and for each
group its commits and members, or a `Failure`.
"""
