"""What each cycle saw, kept as a Delta table of Parquet files.

A finished cycle comes in; rows of the table go out, and sums for the status page. Nothing of it is
ever evidence for a deletion. `retentiond.history.ask` reads the table for a question.
"""
