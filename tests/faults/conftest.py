"""Where a test needs no broker of its own, it is the one that tests/integration shares."""

from tests.integration.conftest import driver

__all__ = ["driver"]
