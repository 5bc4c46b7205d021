"""What the command line asks to delete, and the targets that follow from it.

A bound only ever lowers the target. The target starts at the end (the last stable offset, at most
the high watermark). The end is read after the commits and *before* the look-ups by time, so "no
record is younger" (Kafka's -1) means that end, and never records that were written later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from retentiond.clock import now_ms
from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.formatting import parse_duration, parse_time
from retentiond.kafka.interface import (
    AGE_NOT_YET_KNOWN,
    NOT_ANSWERED,
    EpochEnd,
    Kafka,
    LogRange,
    OffsetBound,
    PartitionEpoch,
    TopicDescription,
)
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from retentiond.tools.delete_records.offsets_file import read_offsets_file
from retentiond.tools.delete_records.partitions import Item, describe, find

CommitsByGroup = Mapping[str, Mapping[TopicPartition, Commit]]

EpochEnds = Mapping[PartitionEpoch, EpochEnd | Failure | None]
"""As `Kafka.epoch_ends` returns them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What can be deleted: records older than ``before_ms`` (epoch), and below the commits of all
    groups. ``changelogs``: the topics that a group restores its state from, by topic the group.

    At least one of the first two bounds is given.
    """

    before_ms: int | None = None
    commits: CommitsByGroup = field(default_factory=dict)
    changelogs: Mapping[str, str] = field(default_factory=dict)


def read_commits(kafka: Kafka, groups: Collection[str]) -> CommitsByGroup:
    """The commits of each group. Raises `KafkaUnavailable` if a group can't be read."""
    answers = kafka.commits(groups)
    commits: dict[str, dict[TopicPartition, Commit]] = {}
    for group in groups:
        answer = answers.get(group, NOT_ANSWERED)
        if isinstance(answer, Failure):
            raise KafkaUnavailable(
                f"the commits of group {group!a} can't be read ({answer}); nothing was deleted: "
                "try again, or check DESCRIBE on the group"
            )
        commits[group] = {
            TopicPartition(commit.topic, commit.partition): commit for commit in answer
        }
    return commits


def read_changelogs(kafka: Kafka, groups: Collection[str]) -> Mapping[str, str]:
    """The topics that streams groups restore their state from, by topic a group (KIP-1071). Raises
    `KafkaUnavailable` if the groups can't be listed, or a topology can't be read."""
    streams = [
        listed
        for listed in kafka.list_groups()
        if listed.group_id in groups and listed.kind is GroupKind.STREAMS
    ]
    changelogs: dict[str, str] = {}
    for group, members in (kafka.members(streams) if streams else {}).items():
        if isinstance(members, Failure):
            raise KafkaUnavailable(
                f"the topology of group {group!a} can't be read ({members}); nothing was deleted: "
                "try again, or check DESCRIBE on the group"
            )
        changelogs |= dict.fromkeys(members.changelogs, group)
    return changelogs


def work_out(kafka: Kafka, items: Sequence[Item], bounds: Bounds) -> list[Item]:
    """The items of `every_partition`, with their targets. Raises `KafkaUnavailable`."""
    if bounds.before_ms is None and not bounds.commits:
        raise ValueError("without a bound everything would go")
    partitions = [item.at for item in items]
    starts = kafka.offsets(partitions, OffsetBound.LOG_START)
    high = kafka.offsets(partitions, OffsetBound.HIGH_WATERMARK)
    stable = kafka.offsets(partitions, OffsetBound.LAST_STABLE)
    epoch_ends = _epoch_ends(kafka, partitions, bounds.commits)
    times: Mapping[TopicPartition, int | Failure | None] = {}
    if bounds.before_ms is not None:
        logs = {
            at: LogRange(start, min(end, stable_end))
            for at in partitions
            if isinstance(start := starts[at], int)
            and isinstance(end := high[at], int)
            and isinstance(stable_end := stable[at], int)
        }
        times = _offsets_at(kafka, dict.fromkeys(partitions, bounds.before_ms), logs)
    return [
        _bounded(
            item,
            bounds,
            epoch_ends,
            start=starts[item.at],
            high=high[item.at],
            stable=stable[item.at],
            by_time=times.get(item.at),
        )
        for item in items
    ]


def _epoch_ends(
    kafka: Kafka, partitions: Collection[TopicPartition], commits_by_group: CommitsByGroup
) -> EpochEnds:
    """What the leaders say of the leader epochs that the commits on these partitions name."""
    named = {
        PartitionEpoch(at, commit.leader_epoch)
        for commits in commits_by_group.values()
        for at in partitions
        if (commit := commits.get(at)) is not None and commit.leader_epoch is not None
    }
    return kafka.epoch_ends(named) if named else {}


def _offsets_at(
    kafka: Kafka,
    times_ms: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogRange],
) -> dict[TopicPartition, int | Failure | None]:
    """As `Kafka.offsets_at`. A topic whose configs can't be read fails: it may be in remote
    storage, where an answer proves something only if the client knows of it."""
    configs = kafka.topic_configs({at.topic for at in times_ms})
    answers: dict[TopicPartition, int | Failure | None] = {
        at: config for at in times_ms if isinstance(config := configs[at.topic], Failure)
    }
    asked = [at for at in times_ms if at not in answers]
    while asked:
        answers |= kafka.offsets_at(
            {at: times_ms[at] for at in asked}, {at: logs[at] for at in asked if at in logs}
        )
        waiting = [at for at in asked if _waits(answers[at])]
        if len(waiting) == len(asked):
            break
        asked = waiting
    return answers


def _waits(answer: int | Failure | None) -> bool:
    """Whether the look-up has to be repeated: in remote storage, only a few are made at a time."""
    return isinstance(answer, Failure) and answer.code == AGE_NOT_YET_KNOWN


def every_partition(kafka: Kafka, topics: Sequence[str]) -> list[Item]:
    """An item for each partition of the topics, without a target. Raises `UsageError`, and
    `KafkaUnavailable`."""
    items = []
    for name, topic in describe(kafka, list(dict.fromkeys(topics))).items():
        if not isinstance(topic, TopicDescription):
            raise UsageError(f"topic {name!a}: {topic}; nothing was deleted")
        items += [Item(name, each, None, topic_id=topic.topic_id) for each in topic.partitions]
    return items


def _bounded(
    item: Item,
    bounds: Bounds,
    epoch_ends: EpochEnds,
    *,
    start: int | Failure,
    high: int | Failure,
    stable: int | Failure,
    by_time: int | Failure | None,
) -> Item:
    if restored_by := bounds.changelogs.get(item.topic):
        return item.failed(
            f"group {restored_by!a}: it restores its state from this topic, whatever it has "
            "committed; nothing was deleted"
        )
    if isinstance(start, Failure):
        return item.failed(f"its log start offset can't be read ({start})")
    if isinstance(high, Failure):
        return item.failed(f"its high watermark can't be read ({high})")
    if isinstance(stable, Failure):
        return item.failed(f"its last stable offset can't be read ({stable})")
    if isinstance(by_time, Failure):
        return item.failed(f"its offset by time can't be read ({by_time})")
    seen = replace(item, log_start_offset=start, high_watermark=high)
    end = min(stable, high)
    target = end if by_time is None else min(end, by_time)
    for group, commits in bounds.commits.items():
        commit = commits.get(item.at)
        if commit is None or commit.offset is None:
            return _without_commit(seen, group, commits)
        if commit.offset > high:
            return seen.failed(
                f"group {group!a}: its commit {commit.offset} is beyond the high watermark {high}; "
                "nothing was deleted: see whether the topic was recreated, or reset the group"
            )
        why = _why_replaced(commit.offset, commit.leader_epoch, item.at, epoch_ends)
        if why is not None and commit.offset > start:
            return seen.failed(
                f"group {group!a}: {why}; nothing was deleted: let the group read on, or reset it"
            )
        target = min(target, commit.offset)
    if target <= start:
        return seen.left_out(f"nothing to delete: it begins at {start}, and {target} is the bound")
    return replace(seen, target=target)


def _why_replaced(
    committed: int, leader_epoch: int | None, at: TopicPartition, epoch_ends: EpochEnds
) -> str | None:
    """Why a group may have read other records than those that are there: after an unclean election
    they take the offsets of lost ones (KIP-101). None if it has read these, or its client has
    committed no leader epoch."""
    if leader_epoch is None:
        return None
    end = epoch_ends.get(PartitionEpoch(at, leader_epoch), NOT_ANSWERED)
    if end is None:  # it has not ended
        return None
    if isinstance(end, Failure):
        return f"leader epoch {leader_epoch} of its commit can't be looked up ({end})"
    problem = end.contradiction(committed, leader_epoch)
    if problem is None:
        return None
    return f"it has committed {committed} in leader epoch {leader_epoch}, {problem}"


def _without_commit(item: Item, group: str, commits: Mapping[TopicPartition, Commit]) -> Item:
    """The item for a partition where the group has no commit. If it has commits on other
    partitions of the topic, it may have read nothing here yet; if not, it is no reader of the
    topic."""
    if item.at in commits:
        return item.failed(f"group {group!a}: its commit can't be read; nothing was deleted")
    if all(at.topic != item.topic for at in commits):
        return item.failed(
            f"group {group!a}: it has no commit on this topic; nothing was deleted: check the "
            "names of group and topic"
        )
    return item.left_out(f"group {group!a}: it has no commit here")


@dataclass(frozen=True, slots=True)
class Targets:
    """What the command line asks to delete.

    ``explicit``: the entries of a file; None if the other fields give bounds. ``before_ms``: only
    records older than this, in epoch milliseconds. If time and groups are given, both must hold.
    ``warnings``: sentences about the file, or about the time.
    """

    explicit: tuple[Item, ...] | None = None
    topics: tuple[str, ...] = ()
    before_ms: int | None = None
    groups: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def items(self, kafka: Kafka) -> list[Item]:
        """An item for each partition. Raises `RetentiondError` if no item can be made."""
        if self.explicit is not None:
            return find(kafka, self.explicit)
        names = self.topics or sorted(
            {at.topic for each in self._commits(kafka).values() for at in each}
        )
        # Before the commits: those of a topic that is recreated meanwhile say nothing about it.
        items = every_partition(kafka, names)
        commits = self._commits(kafka)
        changelogs = read_changelogs(kafka, self.groups) if self.groups else {}
        return work_out(kafka, items, Bounds(self.before_ms, commits, changelogs))

    def _commits(self, kafka: Kafka) -> CommitsByGroup:
        """Raises `UsageError` if a group has none."""
        commits = read_commits(kafka, self.groups) if self.groups else {}
        if unknown := [group for group, partitions in commits.items() if not partitions]:
            raise UsageError(
                f"group {', '.join(map(ascii, unknown))} has no commit that you may see; nothing "
                "was deleted: check its name, and DESCRIBE on its topics"
            )
        return commits


def read_targets(
    *,
    file: Path | None,
    topics: Sequence[str],
    older_than: str | None,
    to_datetime: str | None,
    groups: Sequence[str],
) -> Targets:
    """Checks the options and reads the file, without asking the cluster. Raises `UsageError`, and
    `ConfigError` for the file."""
    by_time = [text for text in (older_than, to_datetime) if text is not None]
    if file is not None:
        if topics or by_time or groups:
            raise UsageError("--offset-json-file names every offset: leave the other bounds out")
        read = read_offsets_file(file)
        return Targets(read.items, warnings=tuple(f"{file}: {each}" for each in read.warnings))
    if len(by_time) > 1:
        raise UsageError("choose --older-than or --to-datetime")
    if by_time and not topics and not groups:
        raise UsageError("--older-than and --to-datetime need --topic")
    if not by_time and not groups:
        raise UsageError(
            "nothing says what to delete: --offset-json-file, or --topic with --older-than, "
            "--to-datetime or --to-committed"
        )
    if "" in topics or "" in groups:
        raise UsageError("the name of a topic or group is empty")
    before_ms = _before_ms(older_than, to_datetime)
    warnings: tuple[str, ...] = ()
    if before_ms is not None and before_ms > now_ms():
        warnings = (f"--to-datetime {to_datetime} is in the future: every record is older",)
    return Targets(None, tuple(topics), before_ms, tuple(dict.fromkeys(groups)), warnings)


def _before_ms(older_than: str | None, to_datetime: str | None) -> int | None:
    if older_than is not None:
        age_ms = parse_duration(older_than)
        now = now_ms()
        if age_ms is None or age_ms > now:
            raise UsageError(f"--older-than {older_than!a}: expected a time as in 7d, 12h or 90m")
        return now - age_ms
    return None if to_datetime is None else _epoch_ms(to_datetime)


def _epoch_ms(text: str) -> int:
    """The time in epoch milliseconds; without a zone it is UTC. Raises `UsageError`, also for a
    negative time, which has a special meaning in Kafka."""
    try:
        at_ms = parse_time(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--to-datetime {text!a}: expected a time as in 2026-02-01T12:00:00+01:00"
        ) from error
    if at_ms < 0:
        raise UsageError(f"--to-datetime {text!a}: expected a time from 1970 on")
    return at_ms
