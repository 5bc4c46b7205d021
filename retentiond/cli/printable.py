"""Text from elsewhere, made safe for a terminal: `retentiond.wording.printable`."""

from retentiond.wording.printable import printable

__all__ = ["printable"]
