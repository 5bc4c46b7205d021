"""The status page: the last report as HTML.

In come the last report, the history's sums, and what ``state_dir`` says of groups, deletions and
the pause; out goes HTML, in which every name is escaped. Nothing is changed.
"""
