"""The command line: one file a command, imported when it is asked for.

In come options; out go tables or JSON on stdout, sentences on stderr, and an exit code. Nothing is
decided here.
"""
