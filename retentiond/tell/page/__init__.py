"""The status page: the last report as HTML.

In come the last report and two read-only looks into ``state_dir``; out goes HTML, in which every
name is escaped. Nothing is changed.
"""
