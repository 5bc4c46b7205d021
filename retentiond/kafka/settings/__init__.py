"""Client settings: the ``kafka:`` section and ``--command-config``, for both clients.

In come properties by Kafka's names; out go `ClientSettings`, or a `ConfigError` for a property that
would reach only one client.
"""
