"""Keeps the members of groups going, and enters into the book what they tell."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from devkit.ledger.book import Begin, Book, Commit, Loss
from devkit.ledger.keeper import Keeper
from devkit.ledger.member import Life
from devkit.ledger.record import now_ms
from devkit.ledger.scenario import Group, Habit, Partition, Return
from devkit.ledger.shown import FOREVER

SILENT_SECONDS = 60.0  # a life without a commit is no longer, though the daemon is not seen to work
ABSENT_MS = 5_000.0  # half of a session
FREEZES = (5.0, 15.0)
SHORT_SECONDS, LONG_SECONDS = 25.0, 150.0
OFTEN, SELDOM = 0.5, 0.1
WAYS = (Return.EARLIEST, Return.EARLIEST, Return.OWN, Return.TIME, Return.LATEST)


def command(life: Life) -> list[str]:
    return ["-m", "devkit.ledger.group_member", json.dumps(asdict(life))]


class Entries:
    """Enters one life of a member of a group of that name; the lines are as of
    `devkit.ledger.member`."""

    def __init__(self, book: Book, group: str) -> None:
        self._book = book
        self._group = group
        self._open: tuple[dict[Partition, int], float] | None = None  # a commit, sent at
        self._topics: tuple[list[str], float] | None = None  # assigned, since
        self._heard_ms = FOREVER

    def enter(self, line: str) -> None:
        """That came just now. Raises ValueError for what is no such line."""
        now = now_ms()
        if now - self._heard_ms > ABSENT_MS:  # it may have lost its place meanwhile
            self._leave(self._heard_ms)
        self._heard_ms = now
        if line:
            self._enter(line)

    def _enter(self, line: str) -> None:
        name = self._group
        match json.loads(line):
            case ["saw", topic, number, offset, sequence, stamp_ms]:
                self._book.saw(name, (topic, number), offset, sequence, stamp_ms)
            case ["began", topic, number, offset, gave_up, at_ms]:
                self._book.began(name, (topic, number), Begin(offset, gave_up, at_ms))
            case ["moved", topic, number, offset]:
                self._book.moved(name, (topic, number), offset)
            case ["skipped", topic, number, start, end, at_ms]:
                self._book.lost(Loss(name, (topic, number), start, end, at_ms))
            case ["was reset", topic, number, offset, log_start, at_ms]:
                loss = Loss(name, (topic, number), offset, log_start, at_ms, reset=True)
                self._book.lost(loss)
            case ["asked", offsets, sent_ms]:
                asked = {(topic, number): offset for topic, number, offset in offsets}
                self._open = asked, sent_ms
            case ["answered", acknowledged, ended_ms]:
                self._settle({(topic, number) for topic, number in acknowledged}, ended_ms)
            case ["assigned", topics, at_ms]:
                self._leave(at_ms)
                self._topics = topics, at_ms
            case ["revoked", at_ms]:
                self._leave(at_ms)
            case ["count", what]:
                self._book.count(what)
            case _:
                raise ValueError(f"a member of {name} says: {line}")

    @property
    def assigned(self) -> bool:
        return self._topics is not None

    def shown(self) -> bool:
        """The daemon has seen this life, or another of the group, with all these topics."""
        if self._topics is None:
            return False
        topics, since_ms = self._topics
        for topic in topics:  # up to now; the rest follows
            self._book.shown.was_member(self._group, topic, since_ms, now_ms())
        return all(self._book.shown_since(self._group, topic) is not None for topic in topics)

    def end(self, at_ms: float) -> None:
        """The process is gone: nobody waits any longer for an answer that has not been told."""
        self._settle(set(), at_ms)
        self._leave(at_ms)

    def _leave(self, at_ms: float) -> None:
        if self._topics is not None:
            topics, since_ms = self._topics
            for topic in topics:
                self._book.shown.was_member(self._group, topic, since_ms, at_ms)
        self._topics = None

    def _settle(self, acknowledged: set[Partition], ended_ms: float) -> None:
        if self._open is None:
            return
        offsets, sent_ms = self._open
        self._open = None
        commits = (
            (partition, Commit(offset, sent_ms, ended_ms, partition in acknowledged))
            for partition, offset in offsets.items()
        )
        self._book.committed(self._group, commits)


class Reader(Keeper):
    """Members of a classic or consumer group, with their habits."""

    kind: ClassVar[str] = "consumers"

    def __init__(self, servers: str, group: Group, book: Book, seed: str, log_file: Path) -> None:
        super().__init__(servers, group, book, seed, log_file)
        self._habits = [Habit.LAG, Habit.STOP, Habit.CRASH]
        if group.rewinds:
            self._habits += [Habit.REWIND, Habit.REWIND]
        self._life: Life = self._usual()

    def _command(self) -> list[str]:
        return command(self._life)

    def _live(self) -> None:
        self._life = self._next_life()
        if self._life.commits:
            self._lead(self._freezing())
        else:
            self._lead_silently()

    def _next_life(self) -> Life:
        life = self._usual()
        if self.group.changes and not self._calm.is_set():
            count = self._random.randint(1, len(self.group.topics))
            topics = self._random.sample(self.group.topics, count)
            life = replace(life, subscription=[each.name for each in topics])
            self._book.count("subscriptions changed")
            if self._random.random() < OFTEN:
                return self._silent(life)
        return life

    def _usual(self) -> Life:
        calm = self._calm.is_set()
        group = self.group
        return Life(
            self._servers,
            group.name,
            group.protocol,
            [group.pattern] if group.pattern else [each.name for each in group.topics],
            again=not group.changes,
            slow=group.slow and not calm,
            habits=() if calm or group.slow else tuple(self._habits),
            seed=str(self._random.random()),
        )

    def _silent(self, life: Life) -> Life:
        return replace(self._returning(life), commits=False, again=False, habits=())

    def _returning(self, life: Life) -> Life:
        own = self._book.own_positions(life.group)
        positions = ((*each, at.offset, at.timestamp_ms) for each, at in own.items())
        return replace(life, way=self._random.choice(WAYS), own=tuple(positions))

    def _lead(self, at_each_line: Callable[[], None], entries: Entries | None = None) -> None:
        """One life, each line entered."""
        entries = entries or Entries(self._book, self.group.name)
        for line in self._lines():
            entries.enter(line)
            at_each_line()
        entries.end(self._killed_ms or now_ms())

    def _lead_silently(self) -> None:
        """Until the daemon has seen it, or the time is over; then it crashes."""
        entries = Entries(self._book, self.group.name)
        ends_at = time.monotonic() + SILENT_SECONDS
        look_at = [0.0]

        def crash() -> None:
            now = time.monotonic()
            if self._asked or now < look_at[0]:
                return
            look_at[0] = now + 0.5
            if now > ends_at or entries.shown():
                with self._lock:
                    if entries.assigned and not self._asked:
                        self._book.count("crashes before a first commit")
                    self._kill()

        self._lead(crash, entries)

    def _freezing(self) -> Callable[[], None]:
        """Stand still now and then, where that is a habit."""
        at = [time.monotonic() + self._random.uniform(10, 40)]

        def freeze() -> None:
            if self.group.freezes and time.monotonic() > at[0] and not self._calm.is_set():
                self._book.count("members frozen")
                self._freeze(self._random.uniform(*FREEZES))
                at[0] = time.monotonic() + self._random.uniform(40, 120)

        return freeze

    def _died(self, exit_code: int) -> None:
        """A signal is the client library's affair, and an exit code ours."""
        if exit_code > 0:
            raise ChildProcessError(f"it ended with exit code {exit_code}: see {self._log_file}")
        super()._died(exit_code)


class Guest(Reader):
    """One group after another: each is seen as a member, crashes before it has committed
    anything, stays away, comes back as it likes, commits, and leaves. ``let_go`` is called with
    the name of each that will not come back."""

    def __init__(
        self,
        servers: str,
        group: Group,
        book: Book,
        seed: str,
        log_file: Path,
        *,
        let_go: Callable[[str], None],
    ) -> None:
        self._kind_of = group
        self._numbers = itertools.count(1)
        self._let_go = let_go
        super().__init__(servers, self._another(), book, seed, log_file)

    def _another(self) -> Group:
        return replace(self._kind_of, name=f"{self._kind_of.name}-{next(self._numbers)}")

    def _live(self) -> None:
        for life in self._lives():
            self._life = life
            if life.commits:
                ends_at = time.monotonic() + self._random.uniform(6, 15)
                self._lead(partial(self._end_at, ends_at))
            else:
                self._lead_silently()
        if not self._calm.is_set() and not self._stop.is_set():
            self._let_go(self.group.name)
            self.group = self._another()

    def _lives(self) -> Iterator[Life]:
        while not self._calm.is_set():
            yield replace(self._silent(self._usual()), way=Return.EARLIEST)
            longest = LONG_SECONDS if self._random.random() < SELDOM else SHORT_SECONDS
            self._stay_away(2, longest)
            if self._stop.is_set():
                return
            if self._random.random() < OFTEN:
                break
        yield replace(self._returning(self._usual()), habits=())

    def _end_at(self, until: float) -> None:
        if time.monotonic() > until and not self._calm.is_set() and not self._asked:
            with self._lock:
                self._ask_to_end()


class Sharer(Keeper):
    """Members of a share group."""

    kind: ClassVar[str] = "share members"

    def _command(self) -> list[str]:
        topics = [each.name for each in self.group.topics]
        return command(Life(self._servers, self.group.name, self.group.protocol, topics))

    def _live(self) -> None:
        ends_at = time.monotonic() + self._random.uniform(8, 30)
        entries = Entries(self._book, self.group.name)
        for line in self._lines():
            entries.enter(line)
            if time.monotonic() > ends_at and not self._calm.is_set() and not self._asked:
                self._end()

    def _end(self) -> None:
        """With or without a farewell."""
        with self._lock:
            if self._random.random() < OFTEN:
                self._ask_to_end()
                self._book.count("share members stopped")
            else:
                self._kill()
                self._book.count("share members killed")
