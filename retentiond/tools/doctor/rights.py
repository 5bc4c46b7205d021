"""What this principal may do, and what its lack means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from retentiond.config import Config
from retentiond.gather.groups import problems
from retentiond.kafka.interface import CoordinatorState
from retentiond.kafka.topics import Operations
from retentiond.model import Failure
from retentiond.tell.reasons import tool_options
from retentiond.tools.doctor.finding import MOST_NAMED, Finding, Level, about, ok, unchecked

GRANT = "kafka-acls {options} --add --allow-principal User:NAME --operation {operation} {resource}"

OFFSETS_TOPIC = "__consumer_offsets"

UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


class Right(NamedTuple):
    operation: str
    acl: str  # as kafka-acls calls it
    without: str


ON_TOPICS = (
    Right("DESCRIBE", "Describe", "offsets can't be read there, and everything is held"),
    Right(
        "DESCRIBE_CONFIGS",
        "DescribeConfigs",
        "retention can't be read there, and everything is held",
    ),
    Right("DELETE", "Delete", "nothing can be deleted there"),
)


def check_groups_visible(state: CoordinatorState, config: Config) -> Iterator[Finding]:
    """Whether every group can be seen, as far as rights and coordinators go."""
    options = tool_options(config.kafka)
    level = Level.WARNING if _assumes_visible(config) else Level.PROBLEM
    if not state.may_describe_cluster:
        yield Finding(
            level,
            "DESCRIBE on CLUSTER",
            "is not granted: Kafka hides groups from this principal, so nothing is deleted"
            if level is Level.PROBLEM
            else "is not granted: Kafka may hide groups from this principal, as the policy assumes "
            "it does not",
            GRANT.format(options=options, operation="Describe", resource="--cluster"),
        )
    if not state.may_ask:
        yield Finding(
            Level.PROBLEM,
            "DESCRIBE on GROUP *",
            "is not granted: a group that can't be read holds every topic that it may read",
            GRANT.format(options=options, operation="Describe", resource="--group '*'"),
        )
    if not state.may_describe_offsets:
        yield Finding(
            Level.PROBLEM,
            f"DESCRIBE on {OFFSETS_TOPIC}",
            "is not granted, so groups could go missing unnoticed, and nothing is deleted",
            GRANT.format(
                options=options, operation="Describe", resource=f"--topic {OFFSETS_TOPIC}"
            ),
        )
    seen = replace(state, may_describe_offsets=True)  # that is said
    for sentence in problems(seen, seen):
        yield Finding(
            Level.PROBLEM,
            "group coordinators",
            f"{sentence}, and nothing is deleted",
            "start the brokers that hold __consumer_offsets, or wait until they have loaded it",
        )
    if state.may_describe_cluster and state.may_ask and state.may_describe_offsets:
        yield ok("rights on cluster and groups", "DESCRIBE is granted, so no group is hidden")


def _assumes_visible(config: Config) -> bool:
    enabled = [policy for policy in config.policies if policy.enabled]
    return bool(enabled) and all(policy.assumes_visible_groups for policy in enabled)


def check_topic_rights(
    found: Mapping[str, Operations | Failure], options: str
) -> Iterator[Finding]:
    """DESCRIBE, DESCRIBE_CONFIGS and DELETE on each enabled topic. One that does not exist is
    `retentiond.tools.doctor.topics`'s. ``options``: `tool_options`."""
    lacking: defaultdict[Right, list[str]] = defaultdict(list)
    failed: dict[str, Failure] = {}
    complete = 0
    for topic, operations in found.items():
        if isinstance(operations, Failure):
            if operations.code == "TOPIC_AUTHORIZATION_FAILED":
                lacking[ON_TOPICS[0]].append(topic)
            elif operations.code != UNKNOWN_TOPIC:
                failed[topic] = operations
            continue
        missing = [right for right in ON_TOPICS if right.operation not in operations]
        for right in missing:
            lacking[right].append(topic)
        complete += not missing
    for right, topics in lacking.items():
        yield from about(
            Level.PROBLEM,
            "topic",
            topics,
            f"{right.operation} is not granted: {right.without}",
            GRANT.format(options=options, operation=right.acl, resource=_resource(topics)),
        )
    for topic, failure in failed.items():
        yield unchecked(f"topic {topic}", failure)
    if complete:
        allowed = ", ".join(right.operation for right in ON_TOPICS)
        yield ok("rights on topics", f"{allowed} are granted on {complete} enabled topics")


def _resource(topics: Collection[str]) -> str:
    named = topics if len(topics) <= MOST_NAMED else ["TOPIC"]
    return " ".join(f"--topic {topic}" for topic in named)
