"""Groups of all kinds: the listing and the proof that it is complete, commits and members.

In come group ids, as the listing gave them; out go the commits and members of each, or the
`Failure` of its coordinator.
"""
