"""The ledger: who must not lose what, and whether a request for deletion respects it.

It shares no code with retentiond. Each rule of the design, and where it is checked:

1. No record at or above a relevant group's committed offset goes, by the truth at the plan's
   reading and at the guard's: `Ledger.judge`, by the `Photograph` of each. Relevant is who was
   there with a commit or a member when that reading listed the groups; who had been told in an
   earlier cycle, or by the plan's reading, and was not released by an operator or the policy;
   who is required; less who is excluded. What changes *after* the second reading asked for it
   (a rewind, a newcomer, a topic recreated) is a race that nobody can win, and is not judged.
2. No record younger than the consumed retention, by the cluster's clock: `judgement.of_partition`.
   Nor one beyond the high watermark or the last stable offset, by both readings.
3. Failed, missing or hidden evidence holds: `judgement.of_census`, `judgement.of_topic`.
4. Only enabled topics, with ``delete`` and without ``compact``: `Ledger.judge`,
   `judgement.of_topic`.
5. An intent is on disk when the request goes out: `Ledger.judge`. Its outcome is true: `audited`.
6. Nothing but requests that were judged, and the brokers' own retention, moves a log start:
   `check_log_starts`, after every step.

Besides: no request in a dry run, while the brake is on, on old evidence, beyond the limits,
before the groups have settled, in the first cycle after a topic was recreated, or while lost
memory is not accepted: `Ledger.judge`. Every partition gets one row with a reason: `check_plan`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from retentiond.model import VERDICT_OF, Plan, TopicPartition
from tests.fakes import FakePartition
from tests.property.model import judgement
from tests.property.model.audited import Intent
from tests.property.model.hand import Hand
from tests.property.model.photograph import Photograph
from tests.property.model.rules import Rules

MOST_EVIDENCE_AGE_MS = 30_000
MOST_ATTEMPTS = 3

LogId = tuple[str, int]  # topic id and partition


@dataclass
class Request:
    """One partition's deletion that was asked for, and what it did at once."""

    cycle_id: str
    at: TopicPartition
    log_id: LogId
    cutoff: int
    log: FakePartition
    start_before: int
    late_before: int  # requests of the same kind that a frozen leader has
    applied: bool = False
    is_late: bool = False


@dataclass(frozen=True)
class Moment:
    """How things stood when the current question was about to be asked."""

    paused: bool = False
    host_now_ms: int = 0


@dataclass
class Ledger:
    """``seen``: when a group that retentiond was told of last had a commit, by topic id and group.
    ``cycles``: complete ones that saw a topic, by its id. ``allowed``: how far each log start may
    be; ``reached``: how far it was."""

    hand: Hand
    rules: Rules
    paused: bool = False
    lost: bool = False  # the memory was damaged, and no operator has accepted it
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)  # each topic's id at the last plan
    cycles: Counter[str] = field(default_factory=Counter)
    allowed: defaultdict[LogId, int] = field(default_factory=lambda: defaultdict(int))
    reached: defaultdict[LogId, int] = field(default_factory=lambda: defaultdict(int))
    requests: list[Request] = field(default_factory=list)
    under_way: list[Request] = field(default_factory=list)
    checked: set[int] = field(default_factory=set)  # deletions in the audit log
    met: Counter[str] = field(default_factory=Counter)
    before: Moment = field(default_factory=Moment)
    first: Photograph = field(default_factory=Photograph)
    current: Photograph = field(default_factory=Photograph)
    recreated: set[str] = field(default_factory=set)  # topics, in this cycle
    released: set[tuple[str, str]] = field(default_factory=set)  # in this cycle
    evidence_at_ms: int = 0
    last_intent: int = 0  # of earlier cycles
    records: dict[TopicPartition, int] = field(default_factory=dict)  # asked for in this cycle
    attempts: Counter[TopicPartition] = field(default_factory=Counter)
    looked_at: set[str] = field(default_factory=set)  # topics, since the last request

    def begin(self) -> None:
        self.current = Photograph()
        self.recreated.clear()
        self.released.clear()
        self.records.clear()
        self.attempts.clear()

    def gathered(self) -> None:
        """The first reading is over; what it says of topics may be remembered from now on."""
        reading = self.current
        for name in reading.described:
            topic_id = reading.ids[name]
            if self.known.get(name, topic_id) != topic_id:
                self.recreated.add(name)
            self.known[name] = topic_id
            if reading.is_whole and not reading.doubts and not self.lost:
                self.cycles[topic_id] += 1

    def planned(self) -> None:
        """All of it is remembered; the second reading begins, as the first has left the
        coordinators."""
        self.first = self.current
        self.current = Photograph(coordinators=self.first.coordinators[-1:])
        self.evidence_at_ms = self.hand.host_now_ms
        if self.first.is_whole:
            self._take_in_the_told()

    def _take_in_the_told(self) -> None:
        for group in self.first.told:
            for at in self.first.commits[group]:
                is_shown = at.partition in self.first.described.get(at.topic, ())
                key = (self.first.ids.get(at.topic, ""), group)
                if is_shown and key not in self.released:
                    self.seen[key] = self.hand.cluster.now_ms

    def forget(self, group: str) -> None:
        for key in [key for key in self.seen if key[1] == group]:
            del self.seen[key]
            self.released.add(key)

    def lose_memory(self) -> None:
        self.lost = True
        self.seen.clear()
        self.known.clear()

    def look(self) -> None:
        """At who still has a commit, and at what the brokers deleted themselves."""
        cluster = self.hand.cluster
        for topic_id, name in self.seen:
            group = cluster.groups.get(name)
            topics = {at.topic for at in group.commits} if group else set()
            if any(cluster.topics[t].topic_id == topic_id for t in topics if t in cluster.topics):
                self.seen[topic_id, name] = cluster.now_ms
        for topic in cluster.topics.values():
            for number, log in enumerate(topic.partitions):
                if log in self.hand.expired:
                    log_id = topic.topic_id, number
                    self.allowed[log_id] = max(self.allowed[log_id], log.log_start)
        self.hand.expired.clear()
        self.note_log_starts()

    def check_log_starts(self) -> None:
        for topic in self.hand.cluster.topics.values():
            for number, log in enumerate(topic.partitions):
                assert log.log_start <= self.allowed[topic.topic_id, number]

    def note_log_starts(self) -> None:
        for topic in self.hand.cluster.topics.values():
            for number, log in enumerate(topic.partitions):
                log_id = topic.topic_id, number
                self.reached[log_id] = max(self.reached[log_id], log.log_start)

    def answered(self) -> None:
        """The requests under way have done what they do at once."""
        self.note_log_starts()
        for each in self.under_way:
            each.is_late = self.hand.late(each.log, each.cutoff) > each.late_before
            each.applied = each.start_before < each.cutoff <= each.log.log_start
        self.requests += self.under_way
        self.under_way.clear()

    def judge(
        self, cutoffs: Mapping[TopicPartition, int], audit: Mapping[TopicPartition, Intent]
    ) -> None:
        """Before each request goes out. Raises AssertionError."""
        assert not self.rules.dry_run
        assert not self.before.paused, "the brake was on"
        assert not self.lost, "the memory is lost"
        age_ms = self.before.host_now_ms - self.evidence_at_ms
        assert 0 <= age_ms <= MOST_EVIDENCE_AGE_MS, "the evidence is old"
        for at, cutoff in cutoffs.items():
            assert at in audit, "there is no intent"
            intent = audit[at]
            assert intent.id > self.last_intent, "it is of an earlier cycle"
            assert intent.cutoff == cutoff
            assert at.topic in self.rules.topics
            rule = self.rules.topics[at.topic]
            remembered = self._remembered(at.topic, intent.topic_id)
            for reading in (self.first, self.current):
                judgement.of_census(reading, rule)
                judgement.of_topic(at, reading, rule, intent.topic_id)
                judgement.of_partition(at, reading, rule, cutoff)
                judgement.of_groups(at, reading, rule, cutoff, remembered)
            assert at.topic not in self.recreated
            assert self.cycles[intent.topic_id] >= self.rules.settle_cycles
            if self.attempts[at]:
                assert at.topic in self.looked_at, "it may be another topic by now"
            self.attempts[at] += 1
            self.records[at] = cutoff - self.first.log_starts[at]
            self._allow(at, cutoff, intent)
        self.looked_at.clear()
        assert max(self.attempts.values(), default=0) <= MOST_ATTEMPTS
        assert sum(self.records.values()) <= (self.rules.records or sum(self.records.values()))
        assert len(self.records) <= (self.rules.partitions or len(self.records))

    def _allow(self, at: TopicPartition, cutoff: int, intent: Intent) -> None:
        """DeleteRecords goes by name: it reaches whatever topic has it now."""
        self.met["requests"] += 1
        topic = self.hand.cluster.topics.get(at.topic)
        if topic is None or topic.topic_id != intent.topic_id:
            self.met["requests that reached another topic"] += 1
        if topic is not None:
            log_id = topic.topic_id, at.partition
            if at.partition < len(topic.partitions):
                self.allowed[log_id] = max(self.allowed[log_id], cutoff)
                log = topic.partitions[at.partition]
            else:  # recreated with fewer of them
                log = FakePartition((), None)
            late = self.hand.late(log, cutoff)
            self.under_way.append(
                Request(intent.cycle_id, at, log_id, cutoff, log, log.log_start, late)
            )

    def _remembered(self, topic: str, topic_id: str) -> set[str]:
        """Who was seen on the topic, less whom the policy has given up waiting for."""
        forget_ms = self.rules.topics[topic].forget_ms
        now_ms = self.hand.cluster.now_ms
        return {
            group
            for (known_id, group), present_ms in self.seen.items()
            if known_id == topic_id and (forget_ms is None or now_ms - present_ms < forget_ms)
        }

    def check_plan(self, plan: Plan) -> None:
        expected = {
            (topic, partition)
            for topic, partitions in self.first.described.items()
            for partition in partitions
        }
        assert [(row.topic, row.partition) for row in plan.rows] == sorted(expected)
        for row in plan.rows:
            assert row.verdict is VERDICT_OF[row.reason]
            self.met[row.reason] += 1
        if plan.complete:
            assert self.first.is_whole
            assert not self.lost
        if plan.complete and plan.rows:  # where there are none, it matters to none who is hidden
            assert not self.first.hidden
            assert not self.first.doubts
