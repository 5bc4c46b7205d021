"""Checks which topics the policy's entries match, what keeps records of enabled topics from being
deleted, and the principal's rights on these topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from retentiond.act.rule import check_settings
from retentiond.config import Config, NoPolicy, TopicPolicy
from retentiond.config.warnings import say_passed_over, unfenced
from retentiond.formatting import say_duration, say_names
from retentiond.gather.offsets import retention_offsets, retentions
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import AGE_UNKNOWN, NO_SUCH_TOPIC, Kafka, LogRange
from retentiond.kafka.remedies import TOPIC_REFUSED
from retentiond.kafka.topics import Operations
from retentiond.model import Failure, TopicPartition
from retentiond.tell.unseen_readers import system_of
from retentiond.tools.doctor.finding import (
    MOST_NAMED,
    Finding,
    Level,
    PartitionLog,
    about,
    about_held,
    grant_command,
    objection,
    ok,
    problem,
    unchecked,
    warning,
)


def check_topics(topics: Sequence[EnabledTopic], config: Config) -> Iterator[Finding]:
    """Nothing in a topic's settings, policy or name speaks against deletion."""
    exact = config.exact_names
    held: dict[Level, list[tuple[str, str]]] = {Level.PROBLEM: [], Level.WARNING: []}
    for reading in (topic.reading for topic in topics):
        # A pattern may be meant for other topics than this.
        is_meant = reading.name in exact or isinstance(reading.policy, NoPolicy)
        if (sentence := objection(check_settings, reading)) is not None:
            held[Level.PROBLEM if is_meant else Level.WARNING].append((reading.name, sentence))
    findings = [
        *(finding for level, found in held.items() for finding in about_held(level, found)),
        *_frees_nothing(topics, config),
        *_owned(topics),
    ]
    yield from findings
    if topics and not findings:
        yield ok("enabled topics", "cleanup.policy and retention.ms of each go with the policy")


def deletable(topics: Sequence[EnabledTopic]) -> tuple[EnabledTopic, ...]:
    """The topics whose readers and disks matter, because records can be deleted from them."""
    return tuple(topic for topic in topics if objection(check_settings, topic.reading) is None)


def _frees_nothing(topics: Sequence[EnabledTopic], config: Config) -> Iterator[Finding]:
    """One finding about all topics of which the same is said: a pattern may have hundreds."""
    by_default = {entry.source for entry in config.entries if entry.is_by_default}
    names_of: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic in topics:
        policy, forced_ms = topic.reading.policy, topic.reading.forced_retention_ms
        if isinstance(policy, TopicPolicy) and policy.consumed_retention_ms == forced_ms:
            is_unsaid = by_default & {*policy.sources}
            default = " (it is the default, which nobody has set)" if is_unsaid else ""
            said = (
                f"it frees nothing: its consumed retention of {say_duration(forced_ms)} is not "
                "shorter than its own retention.ms, so Kafka deletes the records first" + default
            )
            remedy = f"lower retention.commitoffset.* of {' and '.join(policy.sources)}"
            names_of[said, remedy].append(topic.reading.name)
    for (said, remedy), names in names_of.items():
        yield from about(Level.WARNING, "topic", names, said, remedy)


def check_policy_files(config: Config) -> Iterator[Finding]:
    """Every fenced file can be used, all that look like one are read, and all have fences."""
    for sentence in (*say_passed_over(config), *unfenced(config)):
        said, _, remedy = sentence.rpartition(". ")
        yield warning("policy files", said, remedy[:1].lower() + remedy[1:])
    for file in config.unreadable:
        yield problem(
            f"policy file {file.name}",
            f"can't be used, so the topics in its fence are held: {file.problem}",
            "correct the file, or put it back, then send the daemon SIGHUP",
        )


def read_undated(
    kafka: Kafka,
    topics: Sequence[EnabledTopic],
    logs: Mapping[TopicPartition, PartitionLog | Failure],
    now_ms: int,
) -> frozenset[str]:
    """The topics with a partition whose records can't be told to be old, because some have no
    timestamp. Raises `KafkaUnavailable`."""
    retained_ms = retentions(topics)
    ranges = {
        at: LogRange(log.log_start_offset, log.high_watermark)
        for at, log in logs.items()
        if isinstance(log, PartitionLog) and at in retained_ms
    }
    offsets = retention_offsets(kafka, {at: retained_ms[at] for at in ranges}, now_ms, ranges)
    return frozenset(at.topic for at, answer in offsets.items() if answer == AGE_UNKNOWN)


def check_undated(topics: frozenset[str]) -> Iterator[Finding]:
    """Every record whose age counts has a timestamp."""
    yield from about(
        Level.WARNING,
        "topic",
        topics,
        "held: records without a timestamp (or dated before 1970), so nobody knows how old they "
        "are, until Kafka's own retention has removed them",
        "fix the producers, or set message.timestamp.type=LogAppendTime on the topic; if age does "
        "not matter there, set retention.commitoffset.ms: 0",
    )


def _owned(topics: Sequence[EnabledTopic]) -> Iterator[Finding]:
    by_meaning: dict[str, list[str]] = {}
    for topic in topics:
        if (system := system_of(topic.reading.name)) is not None:
            by_meaning.setdefault(system.meaning, []).append(topic.reading.name)
    for meaning, names in by_meaning.items():
        yield from about(
            Level.WARNING,
            "topic",
            names,
            meaning.replace("by its name", "by name", 1),
            "leave it out of the policy, unless you know that nobody reads it from the beginning",
        )


def check_entries(
    config: Config, visible: frozenset[str], rights: Mapping[str, Operations | Failure] | Failure
) -> Iterator[Finding]:
    """Every entry is about an existing topic, and so is each of its exceptions. ``visible``: the
    topics that can be seen."""
    entries = [
        placed
        for placed in config.entries
        if placed.policy.enabled or placed.switches_off or placed.entry.exceptions
    ]
    if not any(placed.policy.enabled for placed in entries):
        yield warning(
            "topics",
            "no entry enables a topic, so nothing is ever deleted",
            "set retention.commitoffset.enable: true on an entry",
        )
    for placed in entries:
        entry, source = placed.entry, placed.source
        if entry.pattern is not None and not any(map(placed.matches, visible)):
            yield _matches_nothing(
                source,
                f"the pattern {entry.pattern.pattern} matches no topic that is visible here",
                placed.switches_off,
            )
        for index, regex in enumerate(entry.exceptions or ()):
            if not any(map(regex.fullmatch, visible)):
                yield _matches_nothing(
                    f"{source}.except[{index}]",
                    f"the exception {regex.pattern} matches no topic that is visible here",
                    True,
                )
        if entry.name is None or entry.name in visible:
            continue
        answer = None if isinstance(rights, Failure) else rights.get(entry.name)
        if not isinstance(answer, Failure) or answer.code == NO_SUCH_TOPIC:
            yield warning(
                source,
                f"there is no topic {entry.name}"
                f"{_SO_IT_PROTECTS_NOTHING if placed.switches_off else ''}",
                "correct the name, or create the topic",
                (entry.name,),
            )
    enabled = [name for name in visible if config.policy_for(name) is not None]
    trials = [name for name in enabled if _is_on_trial(name, config)]
    if config.dry_run:
        yield ok("dry_run", "is true: nothing is deleted until it is set to false")
    elif trials:
        yield ok("dry_run", f"nothing is deleted from topics on trial: {say_names(trials, 3)}")
    if enabled:
        yield ok("topics", f"{len(enabled)} of {len(visible)} topics are enabled")


_SO_IT_PROTECTS_NOTHING = ", so it keeps records of none"


def _matches_nothing(source: str, sentence: str, protects: bool) -> Finding:
    return warning(
        source,
        sentence + (_SO_IT_PROTECTS_NOTHING if protects else ""),
        "a pattern matches a topic's whole name: fix it, or grant DESCRIBE on the topics",
    )


TOPIC_RIGHTS = {
    "DESCRIBE": "offsets can't be read there, and everything is held",
    "DESCRIBE_CONFIGS": "retention can't be read there, and everything is held",
    "DELETE": "nothing can be deleted there",
}
"""What follows where a right is not granted."""


def _is_on_trial(topic: str, config: Config) -> bool:
    policy = config.policy_for(topic)
    return config.dry_run or (policy is not None and policy.dry_run)


def check_topic_rights(
    found: Mapping[str, Operations | Failure], options: str, config: Config
) -> Iterator[Finding]:
    """DESCRIBE, DESCRIBE_CONFIGS and DELETE are granted on every enabled topic. Where nothing is
    deleted yet, DELETE is not needed yet. `check_entries` reports topics that don't exist.
    ``options``: `tool_options`."""
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    failed: dict[str, Failure] = {}
    complete = 0
    for topic, operations in found.items():
        if isinstance(operations, Failure):
            if operations.code == TOPIC_REFUSED:
                lacking["DESCRIBE"].append(topic)
            elif operations.code != NO_SUCH_TOPIC:
                failed[topic] = operations
            continue
        missing = [right for right in TOPIC_RIGHTS if right not in operations]
        for right in missing:
            lacking[right].append(topic)
        complete += not missing
    for right, topics in lacking.items():
        trials = [name for name in topics if right == "DELETE" and _is_on_trial(name, config)]
        needed = [name for name in topics if name not in trials]
        for level, names, without in (
            (Level.PROBLEM, needed, TOPIC_RIGHTS[right]),
            (Level.WARNING, trials, "it is needed as soon as dry_run is false there"),
        ):
            yield from about(
                level,
                "topic",
                names,
                f"{right} is not granted: {without}",
                grant_command(options, _acl(right), _resource(names)),
            )
    for topic, failure in failed.items():
        yield unchecked(f"topic {topic}", failure)
    if complete:
        allowed = ", ".join(TOPIC_RIGHTS)
        yield ok("rights on topics", f"{allowed} are granted on {complete} enabled topics")


def _acl(right: str) -> str:
    """As kafka-acls calls it: DescribeConfigs."""
    return right.title().replace("_", "")


def _resource(topics: Collection[str]) -> str:
    named = topics if len(topics) <= MOST_NAMED else ["TOPIC"]
    return " ".join(f"--topic {topic}" for topic in named)
