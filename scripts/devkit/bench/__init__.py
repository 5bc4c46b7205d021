"""How fast retentiond is, beside what it can't be faster than: ``scripts/bench``."""
