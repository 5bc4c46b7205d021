"""What the policy's entries match on this cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retentiond.config import Config
from retentiond.doctor.finding import Finding, Level, ok
from retentiond.doctor.rights import UNKNOWN_TOPIC
from retentiond.kafka.rights import Operations
from retentiond.model import Failure


def check_entries(
    config: Config, visible: frozenset[str], rights: Mapping[str, Operations | Failure] | Failure
) -> Iterator[Finding]:
    """Entries that enable nothing that is there. ``visible``: the topics that can be seen."""
    entries = [
        (entry, policy)
        for entry, policy in zip(config.topics, config.policies, strict=True)
        if policy.enabled
    ]
    if not entries:
        yield Finding(
            Level.WARNING,
            "topics",
            "no entry enables a topic, so nothing is ever deleted",
            "set retention.commitoffset.enable: true on an entry",
        )
    for entry, policy in entries:
        (source,) = policy.sources
        if entry.pattern is not None and not any(map(entry.pattern.fullmatch, visible)):
            yield Finding(
                Level.WARNING,
                source,
                f"the pattern {entry.pattern.pattern} matches no topic that is visible here",
                "a pattern matches a topic's whole name: mend it, or grant DESCRIBE on the topics",
            )
        if entry.name is None or entry.name in visible:
            continue
        answer = None if isinstance(rights, Failure) else rights.get(entry.name)
        if not isinstance(answer, Failure) or answer.code == UNKNOWN_TOPIC:
            yield Finding(
                Level.WARNING,
                source,
                f"there is no topic {entry.name}",
                "mend the name, or create the topic",
                (entry.name,),
            )
    enabled = [name for name in visible if config.policy_for(name) is not None]
    if config.dry_run:
        yield ok("dry_run", "is true: nothing is deleted until it is set to false")
    if enabled:
        yield ok("topics", f"{len(enabled)} of {len(visible)} topics are enabled")
