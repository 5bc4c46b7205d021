"""What is remembered about a reading's topics, one by one."""

from __future__ import annotations

from retentiond.memory.remembered import GroupOnTopic, Remembered, RememberedReader, is_forgotten
from retentiond.snapshot import Snapshot


def known_commits(snapshot: Snapshot, before: Remembered) -> dict[GroupOnTopic, RememberedReader]:
    """Less what says nothing any more: commits on a topic that was recreated, and readers that the
    policy has given up waiting for."""
    by_name = {topic.name: topic for topic in snapshot.topics}
    return {
        at: last.without_commits() if by_name[at.topic].recreated else last
        for at, last in before.commits.items()
        if at.topic in by_name and not is_forgotten(by_name[at.topic].policy, last)
    }
