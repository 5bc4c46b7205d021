"""The history: what each cycle saw, kept as a Delta table of Parquet files.

A finished cycle comes in; rows of the table go out, and sums for the status page. The history is
never evidence for a deletion. `retentiond.history.ask` answers questions from the table.
"""
