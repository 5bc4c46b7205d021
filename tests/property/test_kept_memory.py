"""What a process keeps of the remembered groups is what the file holds, whatever happens.

A cycle keeps the readers that it has written. The judge opens the file again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from retentiond.config import Config
from retentiond.errors import StateError
from retentiond.memory.readers import NOBODY
from retentiond.model import GroupKind
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall
from tests.support.builders.gather_worlds import config, entry, healthy
from tests.support.builders.group_memories import remember, taken
from tests.support.fakes import FakeCluster
from tests.support.tiers import runs

LIVES = runs(60, quick=8)
EVENTS = 40
GROUPS = ("billing", "search", "late")
TOPICS = {"orders": 2, "clicks": 1}

PATIENT = config()
IMPATIENT = config(*(entry(name, groups={"forget_vanished_after": "1m"}) for name in TOPICS))


class Life:
    """A process that runs cycles, while groups, topics, operators and the disk do as they like."""

    def __init__(self, state_dir: Path, random: Random) -> None:
        self.state_dir = state_dir
        self.random = random
        self.kafka: FakeCluster = healthy()
        self.memory = GroupMemory.open(state_dir)
        self.written = Counter[str]()

    def happen(self) -> None:
        self.random.choice(
            [self.commit, self.commit, self.commit, self.go, self.recreate, self.pass_time,
             self.be_released, self.be_released_by_another, self.restart]
        )()  # fmt: skip
        self.written[self.random.choice([self.cycle, self.cycle, self.cycle, self.full_disk,
                                         self.guarded, self.interrupted])()] += 1  # fmt: skip

    # What happens in the cluster and beside the process

    def commit(self) -> None:
        topic = self.random.choice([*TOPICS])
        if topic in self.kafka.topics:
            at = (topic, self.random.randrange(TOPICS[topic]))
            kind = self.random.choice([GroupKind.CLASSIC, GroupKind.CONSUMER])
            self.kafka.commit(self.random.choice(GROUPS), {at: self.random.randint(0, 8)}, kind)

    def go(self) -> None:
        group = self.random.choice(GROUPS)
        if group in self.kafka.groups:
            self.kafka.delete_group(group)

    def recreate(self) -> None:
        topic = self.random.choice([*TOPICS])
        if topic in self.kafka.topics:
            self.kafka.delete_topic(topic)
        else:
            self.kafka.create_topic(topic, TOPICS[topic])
            self.kafka.produce(topic, 0, 6)

    def pass_time(self) -> None:
        self.kafka.advance(self.random.choice([1_000, 30_000, 90_000_000]))

    def be_released(self) -> None:
        self.memory.forget(self.random.choice(GROUPS))

    def be_released_by_another(self) -> None:
        with closing(GroupMemory.open(self.state_dir, shared=True)) as operator:
            operator.forget(self.random.choice(GROUPS))

    def restart(self) -> None:
        self.memory.close()
        self.memory = GroupMemory.open(self.state_dir)

    # What the process does

    def policy(self) -> Config:
        return self.random.choice([PATIENT, IMPATIENT])

    def cycle(self, meanwhile: Callable[[], None] = lambda: None) -> str:
        before = self.memory.recall()
        read = taken(self.kafka, before, self.policy())
        meanwhile()
        remember(self.memory, read, before, self.random.choice([0, 70_000]))
        return "cycle"

    def interrupted(self) -> str:
        self.cycle(self.be_released_by_another)
        return "interrupted"

    def guarded(self) -> str:
        """A cycle, and then what only the guard's reading shows."""
        self.cycle()
        before = self.memory.recall()
        self.commit()
        after = self.memory.remember_newcomers(taken(self.kafka, before), NOBODY, before)
        return "no newcomers" if after is before else "newcomers"

    def full_disk(self) -> str:
        """Cycles that can write nothing, and then one that can."""
        try:
            with self.nothing_can_be_written():
                for _ in range(self.random.randint(1, 2)):
                    self.commit()
                    self.cycle()
        except StateError:
            for _ in range(self.random.randrange(4)):
                self.random.choice([self.go, self.be_released_by_another])()
            self.cycle()
            return "full disk"
        return "nothing to write"

    @contextmanager
    def nothing_can_be_written(self) -> Iterator[None]:
        def refuse(action: int, *_: object) -> int:
            is_write = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE)
            return sqlite3.SQLITE_DENY if is_write else sqlite3.SQLITE_OK

        self.memory._connection.set_authorizer(refuse)
        try:
            yield
        finally:
            self.memory._connection.set_authorizer(None)


@pytest.mark.parametrize("seed", range(LIVES))
def test_what_a_process_keeps_is_what_the_file_holds(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, Random(seed))
    try:
        for _ in range(EVENTS):
            life.happen()
            assert life.memory.recall() == recall(tmp_path)
    finally:
        life.memory.close()
    assert life.written["cycle"] > EVENTS / 10
