"""Keeps a member of a classic or consumer group going, with its habits."""

import random
import threading
import time
import traceback

from confluent_kafka import KafkaException

from devkit.ledger.book import Book
from devkit.ledger.member import Member
from devkit.ledger.scenario import Group

COMMIT_SECONDS = 0.7
AGAIN_SECONDS = 0.5
END_SECONDS = 60.0


class _Away(Exception):
    """This life is over, and the next begins later."""


class Reader:
    """Reads on a thread of its own, in one life after another, each a new `Member`.

    ``error`` says what has broken down for good.
    """

    def __init__(self, servers: str, group: Group, book: Book, seed: str) -> None:
        self.group = group
        self.error: str | None = None
        self._servers = servers
        self._book = book
        self._random = random.Random(seed)
        self._calm = False
        self._stop = threading.Event()
        self._renew = threading.Event()
        self._thread = threading.Thread(
            target=self._guarded, name=f"reader-{group.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def calm_down(self) -> None:
        """From now on only read and commit, with a new consumer that has fetched nothing ahead."""
        self._calm = True
        self._renew.set()

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()
        self._renew.set()

    def join(self) -> None:
        """Return when it has ended, or ``error`` says why not."""
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self.error = f"a consumer of {self.group.name} did not end"

    def _guarded(self) -> None:
        try:
            while not self._stop.is_set():
                self._renew.clear()
                try:
                    self._live()
                except _Away:
                    self._renew.wait(self._random.uniform(1, 8))
                except KafkaException:
                    self._book.count("consumer failures")
                    self._stop.wait(AGAIN_SECONDS)
        except Exception:  # noqa: BLE001 - a thread's end must be told
            self.error = f"a consumer of {self.group.name}: {traceback.format_exc()}"

    def _live(self) -> None:
        member = Member(self._servers, self.group, self._book)
        try:
            habit_at = self._next_habit()
            commit_at = 0.0
            while not self._renew.is_set() and not self._stop.is_set():
                member.read()
                if time.monotonic() >= commit_at:
                    member.commit()
                    commit_at = time.monotonic() + COMMIT_SECONDS
                if time.monotonic() >= habit_at and not self._calm:
                    self._indulge(member)
                    habit_at = self._next_habit()
            member.commit()
        finally:
            member.close()

    def _next_habit(self) -> float:
        return time.monotonic() + self._random.uniform(4, 16)

    def _indulge(self, member: Member) -> None:
        habits = [self._lag, self._stop_for_a_while, self._crash]
        if self.group.rewinds:
            habits += [self._rewind, self._rewind]
        self._random.choice(habits)(member)

    def _lag(self, _member: Member) -> None:
        self._book.count("consumers lagged")
        self._renew.wait(self._random.uniform(2, 10))

    def _stop_for_a_while(self, member: Member) -> None:
        member.commit()
        self._book.count("consumers stopped")
        raise _Away

    def _crash(self, _member: Member) -> None:
        """What it has read since its last commit, it will read again."""
        self._book.count("consumers crashed")
        raise _Away

    def _rewind(self, member: Member) -> None:
        """To somewhere between the log start and where it stands; often to the very start."""
        positions = member.positions
        if not positions:
            return
        number = self._random.choice(sorted(positions))
        log_start = member.log_start(number)
        if log_start >= positions[number]:
            return
        choices = (log_start, self._random.randint(log_start, positions[number]))
        member.go(number, self._random.choice(choices))
        self._book.count("rewinds")
