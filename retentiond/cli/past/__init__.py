"""The commands that ask the recorded past.

In come a period and, for ``simulate``, a policy to try; out go tables, JSON, HTML or a
configuration.
"""
