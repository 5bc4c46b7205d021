"""What several commands print and write with, and the answers that are long to print.

In come reports and records; out go tables for people, JSON and CSV for programs, and files.
"""
