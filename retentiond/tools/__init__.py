"""Tools beside the daemon: doctor, delete-records, orphans. A tool needs no running daemon.

In come options of the command line; out go findings, outcomes and rows of the audit log.
"""
