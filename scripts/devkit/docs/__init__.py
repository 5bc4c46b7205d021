"""The pages of ``docs/`` that are made from the code, so that they can't differ from it."""
