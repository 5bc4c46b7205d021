"""What each cycle saw, kept as a Delta table of Parquet files, and what the past says about a
policy. A report and its snapshot come in; simulations, recommendations and reports go out, and
nothing of it is ever evidence for a deletion."""
