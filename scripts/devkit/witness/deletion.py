"""Whether a DeleteRecords follows from what the brokers had answered before it.

What is not on the wire (external readers, groups that only a memory knows, the audit log) is not
judged.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from devkit.witness.answers import EVIDENCE, LATEST, MAX_AGE_S, TELL_CLUSTER, Answers, At, Offset
from devkit.witness.exchanges import Exchange
from devkit.witness.words import Words

REMOTE_STEP_MS = 15 * 60_000
"""A look-up in remote storage by a time that is so much earlier proves one record more: the one
that it finds, which would else hide younger ones."""


@dataclass(frozen=True)
class Deletion:
    """Of one partition's records, requested when ``answers`` had been given. Of these only what was
    asked for at most 5 s before it counts."""

    by: Exchange
    at: At
    offset: int
    answers: Answers

    def __str__(self) -> str:
        topic, partition = self.at
        return f"DeleteRecords {topic}-{partition} up to {self.offset}"

    def faults(self, words: Collection[Words]) -> Iterator[str]:
        yield from self._identity()
        if not words:
            yield "no configuration enables the topic"
        elif all(said.dry_run for said in words):
            yield "the topic is on trial, or all of it is a dry run"
        else:
            by_words = [[*self._evidence(said)] for said in words if not said.dry_run]
            yield from min(by_words, key=len)

    def repeats(self, requested: Deletion | None) -> Iterator[str]:
        """What was requested before, and may yet be applied."""
        if requested is None or requested.by.asked <= self.answers.recreated_at(self.at[0]):
            return
        asked, answered = requested.by.asked, requested.by.answered
        read_back_from = asked if answered == math.inf else answered
        if not any(
            asked >= read_back_from
            for library, asked in self.answers.starts_read[self.at].items()
            if library != self._library  # what deletes only looks whether leaders answer
        ):
            yield f"up to {requested.offset} was requested before, and was not read back"

    @property
    def _library(self) -> str | None:
        """That sends the request; another one reads."""
        return self.answers.software.get(self.by.connection)

    def _is_of_deleter(self, by: Exchange) -> bool:
        return self.answers.software.get(by.connection) == self._library

    def _counts(self, asked: Exchange) -> bool:
        return asked.asked >= self.by.asked - MAX_AGE_S

    def _evidence(self, words: Words) -> Iterator[str]:
        read = [offset for offset in self.answers.offsets[self.at] if self._counts(offset.by)]
        if words.by_hand:
            ends = [end.offset for end in read if end.stamp == LATEST]
            if ends and self.offset > max(ends):
                yield f"the log's end was answered as {max(ends)}"
            return
        if self.offset < 0:
            yield "it asks for all records, up to the high watermark"
        listings = {
            broker: listing
            for broker, listing in self.answers.listings.items()
            if self._counts(listing.by)
        }
        for broker in sorted(self.answers.brokers - listings.keys()):
            yield f"broker {broker} answered no listing of groups that was asked for within 5 s"
        since = min((listing.by.asked for listing in listings.values()), default=math.inf)
        shown = {group for listing in listings.values() for group in listing.groups}
        for group in sorted(shown):
            if self._is_tied(group) and words.counts(group):
                yield from self._group(group, since)
        since_listing = [offset for offset in read if offset.by.asked >= since]
        yield from self._end(since_listing)
        if words.age_ms:
            yield from self._age(since_listing, words.age_ms)

    def _is_tied(self, group: str) -> bool:
        """An answer has shown the group as a reader of the topic, since that was last created."""
        topic = self.at[0]
        seen = self.answers.ties[topic].get(group, -math.inf)
        return seen > self.answers.recreated_at(topic)

    def _group(self, group: str, since: float) -> Iterator[str]:
        answers = [
            position
            for position in self.answers.positions[group]
            if position.by.asked >= since and (position.asked is None or self.at in position.asked)
        ]
        known = [position.offsets[self.at] for position in answers if self.at in position.offsets]
        if not answers:
            yield f"the offset of group {group} was not answered since the listing"
        elif len(known) < len(answers):
            yield f"group {group} reads the topic, and has no offset on the partition"
        elif self.offset > min(known):
            yield f"group {group} has the offset {min(known)}, by {answers[-1].by}"

    def _end(self, read: list[Offset]) -> Iterator[str]:
        ends = [end for end in read if end.stamp == LATEST and end.is_committed]
        if not ends:
            yield "no last stable offset was answered since the listing"
        elif self.offset > (lowest := min(end.offset for end in ends)):
            yield f"the last stable offset was answered as {lowest}"

    def _age(self, read: list[Offset], age_ms: int) -> Iterator[str]:
        topic = self.at[0]
        latest_ms, first_remote_ms = 1000 * self.by.asked_at - age_ms, -math.inf
        if topic in self.answers.tiered:  # look-ups there are few; what was old once stays old
            since = self.answers.recreated_at(topic)
            read = [look for look in self.answers.offsets[self.at] if look.by.asked > since]
            first_remote_ms = latest_ms - REMOTE_STEP_MS
        bounds = [
            look.offset + (look.stamp <= first_remote_ms)
            if look.offset >= 0
            # With no record so young, all that there was when it was asked for is older.
            else max((end.offset for end in read if end.by.answered <= look.by.asked), default=0)
            for look in read
            if 0 <= look.stamp <= latest_ms
        ]
        if not bounds:
            yield f"no offset of {age_ms} ms ago was answered since the listing"
        elif self.offset > max(bounds):
            yield f"records from {max(bounds)} on were younger than {age_ms} ms"

    def _identity(self) -> Iterator[str]:
        yield from self._same_cluster()
        topic, partition = self.at
        last = self.answers.named.get((self._library, topic))
        if last is None or not self._counts(last.by):
            yield "the client that deletes got no answer about the topic's id within 5 s"
            return
        if self.answers.recreated_at(topic) >= self.by.asked - MAX_AGE_S:
            yield "the topic had two ids within the 5 s before"
        late = [by for by in self.answers.recent if self._is_awaited_after(by, last.by)]
        if late:
            worst = max(late, key=lambda by: by.answered)
            yield (
                f"the topic's id was asked for {1000 * (worst.answered - last.by.asked):.0f} ms "
                f"before the answer to {worst}"
            )
        leader = last.leaders.get(partition)
        if leader != self.by.broker:
            yield f"broker {leader} leads by the last answer, and the request went to another"

    def _is_awaited_after(self, by: Exchange, ids: Exchange) -> bool:
        """Evidence, and what tells the deleting client its cluster. It asks for that by itself,
        too, but not so often that this would matter."""
        if by.api in TELL_CLUSTER:
            return self._is_of_deleter(by) and by.asked > ids.asked
        return by.api in EVIDENCE and by.answered > ids.asked

    def _same_cluster(self) -> Iterator[str]:
        told = self.answers.clusters
        recent = [by for by in self.answers.recent if self._counts(by)]
        untold = {
            by.connection: by
            for by in recent
            if by.connection not in told and by.api in EVIDENCE and not self._is_of_deleter(by)
        }
        for by in untold.values():
            yield f"the connection that carried {by} never told its cluster"
        clusters = {cluster for by in recent for cluster in told.get(by.connection, ())}
        if len(clusters) > 1:
            yield f"two clusters answered: {' and '.join(sorted(clusters))}"
