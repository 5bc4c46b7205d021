"""How results are printed: tables for people, JSON and CSV for programs.

In come reports and records; out goes text on stdout.
"""
