"""``python -m devkit.ledger.group_member LIFE``: a member of a group of any kind.

A process of its own, because librdkafka can wait for ever in ``close()`` with Python's lock held,
because it calls its share consumer a preview, and because a reader that crashes is killed. LIFE is
a JSON object, the fields of `devkit.ledger.member.Life`. SIGUSR1 says that `scenario.RENEWED` is
another topic now: the member goes to where that begins, as a client does that looks at topic ids.
"""

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import KafkaException, ShareConsumer

from devkit.ledger.member import Life, Member, sign, tell
from devkit.ledger.record import decode, now_ms
from devkit.ledger.scenario import Habit, Protocol

COMMIT_SECONDS = 0.7
TICK_SECONDS = 0.2
SHARE_POLL_SECONDS = 0.5
SHARE_ANSWER_SECONDS = 5.0


class Days:
    """A member's life, until ``ending`` is set, or a habit ends it. Raises KafkaException."""

    def __init__(
        self,
        member: Member,
        habits: Sequence[str],
        numbers: random.Random,
        ending: threading.Event,
        renewed: list[int],
    ) -> None:
        self._member = member
        self._habits = [Habit(each) for each in habits]
        self._random = numbers
        self._ending = ending
        self._renewed = renewed

    def lead(self) -> None:
        habit_at = self._next_habit()
        commit_at = 0.0
        while not self._ending.is_set():
            if self._renewed:
                self._renewed.clear()
                self._member.start_over()
            self._member.read()
            sign()
            if time.monotonic() >= commit_at:
                self._member.commit()
                commit_at = time.monotonic() + COMMIT_SECONDS
            if time.monotonic() >= habit_at and self._habits:
                match self._random.choice(self._habits):
                    case Habit.LAG:
                        self._lag()
                    case Habit.REWIND:
                        self._rewind()
                    case Habit.STOP:
                        tell("count", "consumers stopped")
                        break
                    case Habit.CRASH:  # what it has read since its last commit is read again
                        tell("count", "consumers crashed")
                        return
                habit_at = self._next_habit()
        self._member.commit()

    def _next_habit(self) -> float:
        return time.monotonic() + self._random.uniform(5, 25)

    def pause(self) -> None:
        """Until another one follows."""
        self._idle(self._random.uniform(0.5, 6))

    def _lag(self) -> None:
        tell("count", "consumers lagged")
        self._idle(self._random.uniform(2, 10))

    def _idle(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        # Not `Event.wait`: a signal's handler that comes in its midst would wait for its lock.
        while time.monotonic() < ends_at and not self._ending.is_set():
            sign()
            time.sleep(TICK_SECONDS)

    def _rewind(self) -> None:
        """To somewhere between the log start and where it stands; often to the very start."""
        positions = self._member.positions
        if not positions:
            return
        partition = self._random.choice(sorted(positions))
        start = self._member.log_start(partition)
        if start >= positions[partition]:
            return
        choices = (start, self._random.randint(start, positions[partition]))
        self._member.rewind(partition, self._random.choice(choices))
        tell("count", "rewinds")


def share(life: Life, ending: threading.Event) -> None:
    """A member of a share group tells each record that it is given before it acknowledges it."""
    config = {"bootstrap.servers": life.servers, "group.id": life.group}
    consumer = ShareConsumer({**config, "socket.timeout.ms": 10_000, "log_level": 0})
    consumer.subscribe(life.subscription)
    while not ending.is_set():
        for message in consumer.poll(SHARE_POLL_SECONDS):
            if message.error() is None:
                at = (message.topic(), message.partition(), message.offset())
                tell("saw", *at, decode(message.value()), message.timestamp()[1])
        sign()
        with suppress(KafkaException):  # then they are given to a member again
            consumer.commit_sync(SHARE_ANSWER_SECONDS)
    consumer.close()


def main() -> None:
    life = Life(**json.loads(sys.argv[1]))
    ending = threading.Event()
    renewed: list[int] = []  # signals that came: to set an event may wait for its lock
    for number in (signal.SIGINT, signal.SIGTERM):
        # Noted only, so that it leaves in order: an exception would throw away what a poll has
        # just given, and the end of a share consumer would acknowledge it.
        signal.signal(number, lambda *_: ending.set())
    signal.signal(signal.SIGUSR1, lambda number, _: renewed.append(number))
    if life.protocol == Protocol.SHARE:
        share(life, ending)
        return
    numbers = random.Random(life.seed)
    while not ending.is_set():
        try:
            member = Member(life)
            days = Days(member, life.habits, numbers, ending, renewed)
            try:
                days.lead()
            finally:
                tell("revoked", now_ms())
                sign()  # whatever becomes of it in leaving
                member.close()
        except KafkaException:
            tell("count", "consumer failures")
        if not life.again:
            break
        days.pause()


if __name__ == "__main__":
    main()
