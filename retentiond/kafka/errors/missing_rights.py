"""What to do about a right that is missing, or a limit that is too low, in the failure itself.

It needs no Kafka client: `retentiond delete-records` may load only one of the two.
"""

from __future__ import annotations

from dataclasses import replace

from retentiond.model import Failure

TOPIC_REFUSED = "TOPIC_AUTHORIZATION_FAILED"

GROUP_REFUSED = "GROUP_AUTHORIZATION_FAILED"

NOT_UNPACKED = "INVALID_RECORD"

RAISE_THE_LIMIT = (
    "the broker does not unpack the records whose timestamps it is asked for: raise "
    "max.decompressed.message.bytes, of the brokers or of the topic, above what they take unpacked"
)

OPERATIONS = {
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "Delete": "DELETE",
    "Read": "READ",
}
"""As kafka-acls calls them, and as Kafka does."""

DESCRIBE_GROUPS = (
    "grant this principal DESCRIBE on all groups "
    "(kafka-acls --add --group '*' --operation Describe)"
)

DESCRIBE_READ_TOPICS = (
    "grant this principal DESCRIBE on all topics, some of which the group reads "
    "(kafka-acls --add --topic '*' --operation Describe)"
)


def with_topic_grant(failure: Failure, topic: str, operation: str) -> Failure:
    """The failure; if a right on the topic is missing, with how it is granted, and if a limit is
    too low, with which."""
    if failure.code == NOT_UNPACKED:
        return replace(failure, message=RAISE_THE_LIMIT)
    if failure.code != TOPIC_REFUSED:
        return failure
    return replace(
        failure,
        message=f"grant this principal {OPERATIONS[operation]} on the topic "
        f"(kafka-acls --add --topic {topic} --operation {operation})",
    )


def with_group_grant(failure: Failure) -> Failure:
    """The same for a request about a group. Kafka shows one that has adopted the new protocols
    only to those who may see all topics that it reads."""
    grants = {GROUP_REFUSED: DESCRIBE_GROUPS, TOPIC_REFUSED: DESCRIBE_READ_TOPICS}
    return replace(failure, message=grants.get(failure.code, failure.message))
