"""A group and an external reader of one name come, go, and are taken out, in any order.

The judge knows what each of the two was shown to have read, and who was forgotten. It knows nothing
of names, of readings, or of a memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from retentiond.act.guard import verify
from retentiond.config import Config
from retentiond.memory.changes import changes
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict
from retentiond.snapshot import Snapshot
from retentiond.state.groups import GroupMemory
from tests.support import oracle
from tests.support.builders.gather_worlds import config, entry, second_snapshot, snapshot
from tests.support.fakes import FakeCluster
from tests.support.tiers import runs

LIVES = runs(60, quick=12)
AT_ONCE = 6
EVENTS = 30
END = 100
TOPICS = ("clicks", "orders")
PARTITIONS = [TopicPartition(topic, number) for topic in TOPICS for number in (0, 1)]
NAME = "lake"
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"required": [NAME]},
    {"only": [NAME]},
    {"only": [NAME], "required": [NAME]},
    {"only": ["steady"]},
    {"exclude": [NAME]},
    {"min": 2},
)
"""What policies say of names and numbers."""


class Reader:
    """``read``: how far, by partition; ``shown``: the same as a cycle last saw it; ``known``: the
    topics on which it was seen to read, until somebody forgets it."""

    def __init__(self) -> None:
        self.read: dict[TopicPartition, int] = {}
        self.shown: dict[TopicPartition, int] = {}
        self.known: set[str] = set()

    def show(self, topics: Iterable[str], *, position: bool = True) -> None:
        for at in PARTITIONS:
            if at.topic in topics:
                self.known.add(at.topic)
                if position and at in self.read:
                    self.shown[at] = self.read[at]

    def be_forgotten(self) -> None:
        self.shown.clear()
        self.known.clear()

    def spares(self, at: TopicPartition, cutoff: int) -> bool:
        """Whether it can go on if all records below the cutoff are gone."""
        return at.topic not in self.known or cutoff <= self.shown.get(at, 0)


class Life:
    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self.random = random
        self.group, self.external = Reader(), Reader()
        self.named: frozenset[str] = frozenset()  # the topics whose policy names the external one
        self.is_query = random.random() < 0.5
        self.rules = {topic: random.choice(RULES) for topic in TOPICS}
        self.kafka = FakeCluster(brokers=3, offsets_partitions=4)
        for topic in TOPICS:
            self.kafka.create_topic(topic, 2)
            for partition in (0, 1):
                self.kafka.produce(topic, partition, END, timestamp_ms=self.kafka.now_ms - 60_000)
        self.kafka.commit("steady", dict.fromkeys(PARTITIONS, END))
        (folder / "state").mkdir()
        self.memory = GroupMemory.open(folder / "state")
        self.deletions = 0

    # What happens

    def happen(self) -> None:
        self.random.choice(
            [self.commit, self.commit, self.lose_commits, self.store, self.store, self.name,
             self.name, self.take_out, self.lose_position, self.forget, self.restart]
        )()  # fmt: skip

    def commit(self) -> None:
        """On one topic or both, forward or back."""
        for at in self._some_partitions():
            self.group.read[at] = self.random.randint(0, END)
        self.kafka.commit(
            NAME, {(at.topic, at.partition): to for at, to in self.group.read.items()}
        )

    def lose_commits(self) -> None:
        if NAME in self.kafka.groups:
            self.kafka.delete_group(NAME)
            self.group.read.clear()

    def store(self) -> None:
        """An external reader's position is about all that it reads."""
        self.external.read = {at: self.random.randint(0, END) for at in PARTITIONS}
        position: dict[str, dict[str, int]] = {topic: {} for topic in TOPICS}
        for at, offset in self.external.read.items():
            position[at.topic][str(at.partition)] = offset
        for name, text in (
            ("offsets/0", f"v1\n{{}}\n{json.dumps(position)}\n"),
            ("commits/0", "v1\n{}"),
            ("at.json", json.dumps(position)),
        ):
            place = self.folder / "position" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def lose_position(self) -> None:
        for name in ("commits/0", "at.json"):
            (self.folder / "position" / name).unlink(missing_ok=True)
        self.external.read.clear()

    def name(self) -> None:
        self.named |= {self.random.choice(TOPICS)}

    def take_out(self) -> None:
        self.named -= {*self.random.sample(TOPICS, self.random.randint(1, 2))}

    def forget(self) -> None:
        """As an operator does, who says which of the two."""
        reader, is_external = self.random.choice([(self.group, False), (self.external, True)])
        with closing(GroupMemory.open(self.folder / "state", shared=True)) as memory:
            memory.forget(NAME, is_external=is_external)
        reader.be_forgotten()

    def close(self) -> None:
        self.memory.close()

    def restart(self) -> None:
        self.memory.close()
        self.memory = GroupMemory.open(self.folder / "state")

    def _some_partitions(self) -> list[TopicPartition]:
        topics = self.random.choice([TOPICS[:1], TOPICS[1:], TOPICS])
        return [at for at in PARTITIONS if at.topic in topics]

    # What retentiond does

    def cycle(self) -> None:
        """What is planned, and what a guard alone lets pass, is judged."""
        before = self.memory.recall()
        policy = self.policy()
        first = snapshot(self.kafka, policy, remembered=before)
        self.show()
        self.judge(row for row in oracle.plan(first) if row.verdict is Verdict.DELETE)
        seen = changes(first, before, 1)
        self.memory.remember(seen, before)
        if self.random.random() < 0.3:
            self.random.choice([self.commit, self.lose_commits, self.store, self.lose_position])()
        second = second_snapshot(self.kafka, first, PARTITIONS, policy, remembered=before)
        self.show()
        self.memory.remember_newcomers(second, seen.new, before)
        approved = verify(self.reckless_rows(first), first, second).approved
        self.judge(each.row for each in approved)
        self.deletions += len(approved)

    def policy(self) -> Config:
        place = self.folder / "position"
        reader: dict[str, Any] = {"name": NAME, "max_age": "36500d"}
        reader |= (
            {"spark_checkpoint": str(place)} if self.is_query else {"offsets": f"{place}/at.json"}
        )
        place.mkdir(exist_ok=True)
        return config(
            *(
                entry(
                    topic,
                    minutes=0,
                    groups={
                        "external": [reader] if topic in self.named else [],
                        **self.rules_of(topic),
                    },
                )
                for topic in TOPICS
            )
        )

    def rules_of(self, topic: str) -> dict[str, Any]:
        """A policy can't name a reader and leave it out."""
        rules = self.rules[topic]
        return {} if topic in self.named and leaves_out(rules, NAME) else rules

    def show(self) -> None:
        """A query counts on all that its checkpoint names, wherever it is named itself."""
        self.group.show({at.topic for at in self.group.read})
        can_be_read = bool(self.external.read)
        is_everywhere = self.is_query and self.named and can_be_read
        self.external.show(TOPICS if is_everywhere else self.named, position=can_be_read)

    def reckless_rows(self, first: Snapshot) -> list[PlanRow]:
        cutoff = self.random.randint(1, END)
        return [
            replace(
                row, cutoff=cutoff, records=cutoff, verdict=Verdict.DELETE, reason=Reason.CONSUMED
            )
            for row in oracle.plan(first)
        ]

    def judge(self, rows: Iterable[PlanRow]) -> None:
        for row in rows:
            assert row.cutoff is not None
            rules = self.rules_of(row.topic)
            for who, reader in (("group", self.group), ("external reader", self.external)):
                if who == "group" and leaves_out(rules, NAME):
                    continue  # who leaves out a name speaks of groups, and of his own readers
                assert reader.spares(row.topic_partition, row.cutoff), (who, row, vars(reader))
            self.judge_names(row, rules)

    def judge_names(self, row: PlanRow, rules: dict[str, Any]) -> None:
        """Nobody stands for a name, or for one of a number, whom only another policy names."""
        is_own = row.topic in self.named
        meant = [self.external] if is_own else [self.group]
        if NAME in rules.get("required", ()):
            assert any(row.topic_partition in reader.shown for reader in meant), (row, rules)
        standing = [
            not leaves_out(rules, "steady"),
            row.topic in self.group.known and not leaves_out(rules, NAME),
            is_own,
        ]
        assert sum(standing) >= rules.get("min", 1), (row, rules)


def leaves_out(rules: dict[str, Any], name: str) -> bool:
    return name in rules.get("exclude", ()) or name not in rules.get("only", [name])


@pytest.mark.parametrize("first_seed", range(0, LIVES, AT_ONCE))
def test_neither_of_two_readers_of_one_name_loses_a_record(tmp_path: Path, first_seed: int) -> None:
    deletions = 0
    for seed in range(first_seed, first_seed + AT_ONCE):
        folder = tmp_path / str(seed)
        folder.mkdir()
        life = Life(folder, Random(seed))
        with closing(life):
            for _ in range(EVENTS):
                life.happen()
                life.cycle()
        deletions += life.deletions
    assert deletions > 20  # otherwise nothing was tried
