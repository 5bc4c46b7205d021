"""Tools beside the daemon: doctor, delete-records, orphans. Each stands alone.

In come options of the command line; out go findings, outcomes and rows of the audit log.
"""
