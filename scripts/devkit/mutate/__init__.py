"""Mutation testing by hand: see ``scripts/mutate``. cosmic-ray changes the code; what is here is
what it does not know: SQL in strings (`operators`), which mutants do the same as the original
(`equivalents`), trials side by side, and a Spark that starts once (`warm_spark`)."""

MASTER = "RETENTIOND_MUTATE_MASTER"
"""The variable by which a trial's process is told of the Spark Connect server."""
