"""Text from elsewhere, made safe for a terminal or a comment."""

from __future__ import annotations


def printable(text: str) -> str:
    """A group id may hold any character, a terminal's control sequences too."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
