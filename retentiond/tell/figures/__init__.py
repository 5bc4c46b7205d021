"""The figures that every output shows: of partitions, topics, groups, disks and the policy.

In come a plan and what a cycle saw; out go answers, each computed once.
"""
