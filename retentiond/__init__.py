"""retentiond: consumed retention for Apache Kafka."""

__version__ = "0.1.0"
