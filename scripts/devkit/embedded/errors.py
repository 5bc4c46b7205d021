"""The one error of this package: each message is a sentence that says what to do."""


class EmbeddedKafkaError(Exception):
    """The embedded Kafka could not be fetched, started, stopped or asked."""
