"""``python -m devkit.ledger.group_member SERVERS GROUP TOPIC PROTOCOL HABITS SEED``: one life of a
member of a classic or consumer group.

A process of its own, because librdkafka can wait for ever in ``close()`` with Python's lock held:
then it is killed, and nobody else waits. It dictates to its standard output. HABITS are names of
`Habit`, joined by commas, of which it indulges one now and then; without any it only reads.
"""

import random
import signal
import sys
import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaException

from devkit.ledger.dictation import Dictation
from devkit.ledger.member import Member
from devkit.ledger.scenario import Habit, Protocol

COMMIT_SECONDS = 0.7
TICK_SECONDS = 0.2


class Life:
    """Until ``ending`` is set, or a habit ends it. Raises KafkaException."""

    def __init__(
        self,
        member: Member,
        dictation: Dictation,
        habits: Sequence[Habit],
        seed: str,
        ending: threading.Event,
    ) -> None:
        self._member = member
        self._dictation = dictation
        self._habits = habits
        self._random = random.Random(seed)
        self._ending = ending

    def lead(self) -> None:
        habit_at = self._next_habit()
        commit_at = 0.0
        while not self._ending.is_set():
            self._member.read()
            self._dictation.flush()
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
                        self._dictation.count("consumers stopped")
                        break
                    case Habit.CRASH:  # what it has read since its last commit is read again
                        self._dictation.count("consumers crashed")
                        return
                habit_at = self._next_habit()
        self._member.commit()

    def _next_habit(self) -> float:
        return time.monotonic() + self._random.uniform(4, 16)

    def _lag(self) -> None:
        self._dictation.count("consumers lagged")
        ends_at = time.monotonic() + self._random.uniform(2, 10)
        # Not `Event.wait`: a signal's handler that comes in its midst would wait for its lock.
        while time.monotonic() < ends_at and not self._ending.is_set():
            self._dictation.flush()
            time.sleep(TICK_SECONDS)

    def _rewind(self) -> None:
        """To somewhere between the log start and where it stands; often to the very start."""
        positions = self._member.positions
        if not positions:
            return
        number = self._random.choice(sorted(positions))
        log_start = self._member.log_start(number)
        if log_start >= positions[number]:
            return
        choices = (log_start, self._random.randint(log_start, positions[number]))
        self._member.go(number, self._random.choice(choices))
        self._dictation.count("rewinds")


def main() -> None:
    servers, group, topic, protocol, habits, seed = sys.argv[1:]
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())  # noted only: it leaves in order
    dictation = Dictation(sys.stdout)
    chosen = [Habit(name) for name in habits.split(",") if name]
    member = Member(servers, group, topic, Protocol(protocol), dictation)
    try:
        try:
            Life(member, dictation, chosen, seed, ending).lead()
        finally:
            dictation.flush()  # whatever becomes of it in leaving
            member.close()
    except KafkaException:
        dictation.count("consumer failures")


if __name__ == "__main__":
    main()
