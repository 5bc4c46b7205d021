"""retentiond: consumed retention for Apache Kafka."""

from importlib.metadata import version

__version__ = version("retentiond")
