"""Mutation testing by hand: see ``scripts/mutate``."""
