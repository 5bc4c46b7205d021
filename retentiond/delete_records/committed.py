"""What the named groups have committed. kafka-python reads it, so this file is imported late."""

from __future__ import annotations

from collections.abc import Collection

from retentiond.command_config import pem
from retentiond.delete_records.bounds import Commits
from retentiond.errors import ConfigError, KafkaUnavailable
from retentiond.kafka import commits
from retentiond.kafka.connection import Connection
from retentiond.kafka.properties import ClientSettings
from retentiond.model import Failure, TopicPartition


def read_commits(settings: ClientSettings, groups: Collection[str]) -> Commits:
    """Of each group. Raises `KafkaUnavailable` if one can't be read, `ConfigError`."""
    for name, kafkas in pem.INLINE.items():
        if name in settings.confluent:
            raise ConfigError("--to-committed needs PEM in files, by .location", path=kafkas)
    connection = Connection(settings)
    try:
        answers = commits.commits(connection, groups)
    finally:
        connection.close()
    found: dict[str, dict[TopicPartition, int | None]] = {}
    for group in groups:
        answer = answers.get(group, Failure("NO_ANSWER", "its coordinator does not mention it"))
        if isinstance(answer, Failure):
            raise KafkaUnavailable(
                f"the commits of group {group!a} can't be read ({answer}); nothing was deleted: "
                "try again, or see to DESCRIBE on the group"
            )
        found[group] = {TopicPartition(each.topic, each.partition): each.offset for each in answer}
    return found
