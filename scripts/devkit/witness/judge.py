"""Whether each DeleteRecords follows from what the brokers had answered before it.

Pure: what was exchanged and what was configured go in, sentences come out. What is not on the wire
(external readers, groups that only a memory knows, the audit log) is not judged.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from devkit.witness.answers import COMMITTED, EARLIEST, LATEST, Answers, At, Topic
from devkit.witness.frames import Exchange
from devkit.witness.words import Words

MAX_AGE_S = 5.0

TIMED_OUT = 7
REFUSED_ERRORS = {1, 3, 5, 6, 17, 29, 44, 74, 75, 76}
"""Kafka's codes for a request that a broker has certainly not applied."""

EVIDENCE = {
    *("list_groups", "describe_groups", "consumer_group_describe", "share_group_describe"),
    *("streams_group_describe", "offset_fetch", "describe_share_group_offsets"),
    *("list_offsets", "offset_for_leader_epoch", "fetch"),
}
"""Requests whose answers a deletion rests on; all of them come before the topic's id is asked."""

READS = EVIDENCE | {
    *("api_versions", "sasl_handshake", "sasl_authenticate", "metadata", "find_coordinator"),
    *("describe_cluster", "describe_configs", "describe_log_dirs", "describe_quorum"),
    *("describe_topic_partitions", "list_partition_reassignments", "describe_acls"),
}
"""Nothing but these and DeleteRecords may pass."""


@dataclass
class Verdict:
    """``requests``: how many DeleteRecords were seen, and ``deletions``: of how many partitions;
    ``faults``: what is wrong, a sentence each; ``not_judged``: what the wire and the arranged facts
    don't tell."""

    requests: int = 0
    deletions: int = 0
    faults: list[str] = field(default_factory=list)
    not_judged: set[str] = field(default_factory=set)

    def add(self, other: Verdict) -> None:
        self.requests += other.requests
        self.deletions += other.deletions
        self.faults += other.faults
        self.not_judged |= other.not_judged

    def __str__(self) -> str:
        if not self.requests and not self.faults:
            return "the witness on the wire saw no DeleteRecords request"
        found = f"{len(self.faults)} faults" if self.faults else "each is proven"
        return (
            f"the witness on the wire saw {self.requests} DeleteRecords requests, of "
            f"{self.deletions} offsets: {found}"
        )


class Deletion(NamedTuple):
    """``software``: the library that sent it."""

    by: Exchange
    at: At
    offset: int
    software: str | None

    def __str__(self) -> str:
        topic, partition = self.at
        return f"DeleteRecords {topic}-{partition} up to {self.offset}"


@dataclass
class Memory:
    """What outlives the exchanges that are at hand. ``ties``: by topic and group, when an answer
    last showed that group there; ``ids``: by topic and id, when it was last answered;
    ``requested``: what may yet be applied, and was not read back."""

    ties: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    ids: defaultdict[str, dict[Any, float]] = field(default_factory=lambda: defaultdict(dict))
    requested: list[Deletion] = field(default_factory=list)

    def learn(self, answers: Answers, until: float) -> None:
        for topic, ties in answers.ties.items():
            _see(self.ties[topic], ((group, by) for by, group in ties), until)
        for topic, told in answers.topics.items():
            _see(self.ids[topic], ((each.topic_id, each.by) for each in told), until)
        self.requested = [
            each
            for each in self.requested
            if not any(
                offset.stamp == EARLIEST
                # What deletes only looks whether leaders answer.
                and answers.software.get(offset.by.connection) != each.software
                and offset.by.asked >= (each.by.answered or each.by.asked)
                and _time(offset.by) <= until
                for offset in answers.offsets[each.at]
            )
        ]

    def recreated_at(self, topic: str) -> float:
        """When the topic was last seen with another id than the last one."""
        seen = sorted(self.ids[topic].values())
        return seen[-2] if len(seen) > 1 else -math.inf


def _see(seen: dict[Any, float], answered: Iterable[tuple[Any, Exchange]], until: float) -> None:
    for name, by in answered:
        if _time(by) <= until:
            seen[name] = max(_time(by), seen.get(name, -math.inf))


class _Fact(Protocol):
    @property
    def by(self) -> Exchange: ...


WordsFor = Callable[[str], Sequence[Words] | None]
"""What is configured about a topic, by each configuration that was in force; None: nobody has
told."""


def judge(
    exchanges: Iterable[Exchange],
    words_for: WordsFor,
    memory: Memory,
    new: Iterable[Exchange],
    until: float,
) -> Verdict:
    """Of the ``new`` ones; ``exchanges`` are in their order, begin earlier, and are complete
    ``until`` then."""
    unjudged = {id(each) for each in new}
    verdict, by_client = Verdict(), dict[str, list[Exchange]]()
    for each in exchanges:
        by_client.setdefault(each.client, []).append(each)
    for exchanged in by_client.values():
        present = [each for each in exchanged if id(each) in unjudged]
        for each in present:
            if each.api not in READS | {"delete_records"}:
                verdict.faults.append(f"{each}: no request by which retentiond reads")
        answers = Answers(exchanged)
        _judge_deletions(answers, present, words_for, memory, verdict)
        memory.learn(answers, until)
    return verdict


def _judge_deletions(
    answers: Answers,
    present: Sequence[Exchange],
    words_for: WordsFor,
    memory: Memory,
    verdict: Verdict,
) -> None:
    for by in present:
        if by.api != "delete_records":
            continue
        verdict.requests += 1
        if by.request is None:
            verdict.faults.append(f"{by}: not to be decoded")
            continue
        software = answers.software.get(by.connection)
        deletions = [
            Deletion(by, (topic.name, each.partition_index), each.offset, software)
            for topic in by.request.topics
            for each in topic.partitions
        ]
        verdict.deletions += len(deletions)
        memory.learn(answers, by.asked)
        for deletion in deletions:
            found = _Judge(deletion, answers, memory).faults(words_for(deletion.at[0]), verdict)
            verdict.faults += [f"{deletion}: {fault}" for fault in found]
        done = {each.at for each in deletions}
        memory.requested = [each for each in memory.requested if each.at not in done] + [
            each for each in deletions if _may_be_applied(each)
        ]


class _Judge:
    """Of one partition's request. Only what was asked for at most 5 s before it counts."""

    def __init__(self, deletion: Deletion, answers: Answers, memory: Memory) -> None:
        self._deletion, self._answers, self._memory = deletion, answers, memory
        self._at, self._topic = deletion.at, deletion.at[0]
        self._passed = deletion.by.asked
        brokers = [ids for by, ids in answers.brokers if self._is_before(by)]
        self._brokers = brokers[-1] if brokers else frozenset()
        last = {each.by.broker: each for each in answers.listings if self._counts(each)}
        self._listings = last
        self._read_from = min((each.by.asked for each in last.values()), default=math.inf)

    def faults(self, words: Sequence[Words] | None, verdict: Verdict) -> list[str]:
        found = [*self._identity(), *self._once()]
        if words is None:
            verdict.not_judged.add("the age of records: nobody has told of a configuration")
            words = [Words()]
        if not words:
            return [*found, "no configuration enables the topic"]
        if all(each.dry_run for each in words):
            return [*found, "the topic is on trial, or all of it is a dry run"]
        by_words = [[*self._evidence(each)] for each in words if not each.dry_run]
        return found + min(by_words, key=len)

    def _evidence(self, words: Words) -> Iterator[str]:
        offset = self._deletion.offset
        if words.by_hand:
            ends = [each.offset for each in self._offsets() if each.stamp == LATEST]
            if ends and offset > max(ends):
                yield f"the log's end was answered as {max(ends)}"
            return
        if offset < 0:
            yield "it asks for all records, up to the high watermark"
        for broker in sorted(self._brokers - self._listings.keys()):
            yield f"broker {broker} answered no listing of groups that was asked for within 5 s"
        yield from self._groups(words)
        yield from self._end(words)

    def _groups(self, words: Words) -> Iterator[str]:
        shown = {group for each in self._listings.values() for group in each.groups}
        ties = self._memory.ties[self._topic].items()
        since = self._memory.recreated_at(self._topic)
        tied = {group for group, seen in ties if seen > since}
        for group in sorted(shown & tied):
            if not words.counts(group):
                continue
            answers = [
                each
                for each in self._answers.positions[group]
                if self._is_of_reading(each) and (each.asked is None or self._at in each.asked)
            ]
            if not answers:
                yield f"the offset of group {group} was not answered since the listing"
                continue
            offsets = [each.offsets.get(self._at) for each in answers]
            known = [each for each in offsets if each is not None]
            if len(known) < len(offsets):
                yield f"group {group} reads the topic, and has no offset on the partition"
            elif self._deletion.offset > min(known):
                yield f"group {group} has the offset {min(known)}, by {answers[-1].by}"

    def _end(self, words: Words) -> Iterator[str]:
        read = [each for each in self._offsets() if self._is_of_reading(each)]
        ends = [each for each in read if (each.stamp, each.isolation) == (LATEST, COMMITTED)]
        offset = self._deletion.offset
        if not ends:
            yield "no last stable offset was answered since the listing"
        elif offset > (lowest := min(each.offset for each in ends)):
            yield f"the last stable offset was answered as {lowest}"
        if not words.age_ms:
            return
        looked = [
            each
            for each in read
            if each.stamp >= 0 and each.stamp <= 1000 * each.by.asked_at - words.age_ms + 1
        ]
        bounds = [
            each.offset
            if each.offset >= 0
            else max((end.offset for end in ends if _answered(end) <= each.by.asked), default=0)
            for each in looked
        ]
        if not bounds:
            yield f"no offset of {words.age_ms} ms ago was answered since the listing"
        elif offset > max(bounds):
            yield f"records from {max(bounds)} on were younger than {words.age_ms} ms"

    def _identity(self) -> Iterator[str]:
        yield from self._same_cluster()
        ids = [
            each
            for each in self._answers.topics[self._topic]
            if each.is_named and self._counts(each) and self._is_of_deleter(each.by)
        ]
        if not ids:
            yield "the client that deletes got no answer about the topic's id within 5 s"
            return
        last = max(ids, key=_answered)
        others = {each.topic_id for each in self._answers.topics[self._topic] if self._counts(each)}
        if others != {last.topic_id}:
            yield "the topic had two ids within the 5 s before"
        yield from self._nothing_awaited(last)
        leader = last.leaders.get(self._at[1])
        if leader != self._deletion.by.broker:
            yield f"broker {leader} leads by the last answer, and the request went to another"

    def _nothing_awaited(self, topic: Topic) -> Iterator[str]:
        late = [
            each
            for each in self._answers.exchanges
            if each.api in EVIDENCE and self._is_before(each) and _time(each) > topic.by.asked
        ]
        if late:
            worst = max(late, key=_time)
            yield (
                f"the topic's id was asked for {1000 * (_time(worst) - topic.by.asked):.0f} ms "
                f"before the answer to {worst}"
            )

    def _same_cluster(self) -> Iterator[str]:
        answers = self._answers
        told: dict[int, set[str]] = {}
        for by, cluster in answers.clusters:
            if self._is_before(by):
                told.setdefault(by.connection, set()).add(cluster)
        reading = {
            each.connection: each
            for each in answers.exchanges
            if each.api in EVIDENCE
            and self._is_before(each)
            and each.asked >= self._passed - MAX_AGE_S
            and not self._is_of_deleter(each)
        }
        for connection, each in reading.items():
            if connection not in told:
                yield f"the connection that carried {each} never told its cluster"
        deleting = {
            each.connection
            for each in answers.exchanges
            if self._is_of_deleter(each) and self._passed - MAX_AGE_S <= each.asked
        }
        used = {*reading, *deleting}
        clusters = {cluster for each in used for cluster in told.get(each, ())}
        if len(clusters) > 1:
            yield f"two clusters answered: {' and '.join(sorted(clusters))}"

    def _is_of_deleter(self, exchange: Exchange) -> bool:
        """Of the library that sends the request; another one reads."""
        return self._answers.software.get(exchange.connection) == self._deletion.software

    def _once(self) -> Iterator[str]:
        for each in self._memory.requested:
            if each.at == self._at and each.by.asked > self._memory.recreated_at(self._topic):
                yield f"up to {each.offset} was requested before, and was not read back"

    def _offsets(self) -> list:  # type: ignore[type-arg]
        return [each for each in self._answers.offsets[self._at] if self._counts(each)]

    def _is_before(self, exchange: Exchange) -> bool:
        return exchange.answered is not None and exchange.answered <= self._passed

    def _counts(self, fact: _Fact) -> bool:
        return self._is_before(fact.by) and fact.by.asked >= self._passed - MAX_AGE_S

    def _is_of_reading(self, fact: _Fact) -> bool:
        return self._is_before(fact.by) and fact.by.asked >= self._read_from


def _answered(fact: _Fact) -> float:
    return _time(fact.by)


def _time(exchange: Exchange) -> float:
    return -math.inf if exchange.answered is None else exchange.answered


def _may_be_applied(deletion: Deletion) -> bool:
    """It timed out, or nothing certain was answered."""
    if deletion.by.answer is None:
        return True
    topic, partition = deletion.at
    errors = [
        each.error_code.value
        for answered in deletion.by.answer.topics
        if answered.name == topic
        for each in answered.partitions
        if each.partition_index == partition
    ]
    return any(error and error not in REFUSED_ERRORS for error in errors) or not errors
