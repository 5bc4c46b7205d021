"""Random lives of the world and the daemon, and the shortest one that ends as badly.

A plain seeded walk, without Hypothesis: a life is a tuple of plain steps, each of which can be
made in any world, so that it can be replayed, shortened by leaving steps out, and pasted into a
test. It takes a third of the time, which goes into more steps.

    python -m tests.property.model.walk --may 'an address comes to lead to another cluster'
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from retentiond.model import GroupKind
from tests.property.model.daemon import Daemon
from tests.property.model.rules import DAY_MS, ENABLED, EXCLUDED, HOUR_MS, TOPICS, Rules, some_rules
from tests.property.model.world import (
    EVERYTHING,
    FAILOVER,
    FROZEN,
    FULL_DISK,
    OTHER_STATE,
    STALE_COMMIT,
    UNDESCRIBED,
    WRONG_CLOCK,
    World,
)
from tests.support.fakes import HowDeletionEnds

Step = tuple[Any, ...]

STEPS_OF_A_LIFE = 60

MOST_MOMENTS = 60
"""A cycle that deletes has so many."""

NAMED_MOMENTS = (
    "list_groups",
    "commits",
    "members",
    "describe_topics",
    "coordinator_state",
    "within remember",
    "after remember",
    "decide",
    "before intend",
    "after intend",
    "delete_records",
    "before settle",
    "after settle",
)

SHARED_MEMORY = Path("/dev/shm")
"""Each cycle waits several times until a file is on disk, which no test here is about."""


@dataclass(frozen=True)
class Life:
    """``may``: what may happen in its world, of `EVERYTHING`."""

    steps: tuple[Step, ...]
    rules: Rules = field(default_factory=Rules)
    may: frozenset[str] = frozenset(EVERYTHING)

    def __str__(self) -> str:
        return "\n".join([f"{self.rules}", "(", *(f"    {step!r}," for step in self.steps), ")"])


def live(life: Life) -> tuple[Counter[str], AssertionError | None]:
    """What came up, and what somebody has to complain about."""
    root = Path(
        tempfile.mkdtemp(prefix="model-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    )
    world = World(life.may)
    daemon = Daemon(root, world, life.rules)
    try:
        for step in life.steps:
            world.met["steps"] += 1
            daemon.do(step)
    except AssertionError as harm:
        return world.met, harm
    finally:
        daemon.end()
        shutil.rmtree(root)
    return world.met, None


def lives(seed: int, may: Collection[str]) -> Iterator[Life]:
    """Without end."""
    for number in count():
        random = Random(f"{seed}/{number}")
        drawn: list[Step] = []
        while len(drawn) < STEPS_OF_A_LIFE:
            drawn += _steps(random, may)
        yield Life(tuple(drawn), some_rules(random), frozenset(may))


def walk(
    seed: int, steps: int, may: Collection[str] = EVERYTHING
) -> tuple[Counter[str], Life | None]:
    """As many steps at least, unless one of the lives ends badly: then that one."""
    met: Counter[str] = Counter()
    for life in lives(seed, may):
        came_up, harm = live(life)
        met += came_up
        if harm is not None:
            return met, replace(life, steps=life.steps[: came_up["steps"]])
        if met["steps"] >= steps:
            return met, None
    raise AssertionError("lives have no end")


def shortened(life: Life) -> Life:
    """The same end with fewer steps, and less amid its cycles: as few as leaving out gets at."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for size in (16, 8, 4, 2, 1):
            at = len(life.steps)
            while at > 0:
                at = max(0, at - size)
                shorter = replace(life, steps=life.steps[:at] + life.steps[at + size :])
                if live(shorter)[1] is not None:
                    life, is_shorter = shorter, True
        for at, step in enumerate(life.steps):
            for plainer in _plainer(step):
                shorter = replace(life, steps=(*life.steps[:at], plainer, *life.steps[at + 1 :]))
                if live(shorter)[1] is not None:
                    life, is_shorter = shorter, True
                    break
    return life


def _plainer(step: Step) -> Iterator[Step]:
    if step[0] != "cycle":
        return
    plan, due, late = step[1:]
    if late:
        yield ("cycle", plan, due, 0)
    if plan != "sound":
        yield ("cycle", "sound", due, late)
    for moment in due:
        yield ("cycle", plan, {at: steps for at, steps in due.items() if at != moment}, late)


def told(life: Life) -> str:
    """For people: the shortest life, and how it ends."""
    short = shortened(life)
    return f"{live(short)[1]}\n{short}"


# What may come next


def _steps(random: Random, may: Collection[str]) -> tuple[Step, ...]:
    if random.random() < 0.25:
        return (_cycle(random, may),)
    return _change(random, may)


def _cycle(random: Random, may: Collection[str]) -> Step:
    due: dict[int | str, tuple[Step, ...]] = {}
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        at = random.choice((random.randrange(MOST_MOMENTS), random.choice(NAMED_MOMENTS)))
        change = random.choice((_change, _change, _interruption))
        due[at] = change(random, may)
    plan = random.choice(("sound",) * 8 + ("reckless", "careless"))
    return ("cycle", plan, due, random.choice((0, random.getrandbits(16))))


def _interruption(random: Random, _may: Collection[str]) -> tuple[Step, ...]:
    return ((random.choice(("kill", "kill", "kill", "stop", "cut", "leave_out")),),)


def _change(random: Random, may: Collection[str]) -> tuple[Step, ...]:
    menu = [each for each in MENU if each[2] is None or each[2] in may]
    drawn = random.choices(menu, [each[0] for each in menu])[0][1](random)
    return drawn if isinstance(drawn[0], tuple) else (drawn,)


AGENTS = ("g1", "g2", "g3", EXCLUDED, "g1@B", "g2@B")
GROUPS = ("g1", "g2", "g3", EXCLUDED)
KINDS = tuple(kind.value for kind in GroupKind if kind.value not in ("external", "unknown"))
RESETS = ("earliest", "latest", "by time")


def _agent(random: Random) -> str:
    return random.choices(AGENTS, (3, 3, 5, 1, 1, 1))[0]


def _topic(random: Random) -> str:
    return random.choice(ENABLED)


def _topics(random: Random) -> tuple[str, ...]:
    return tuple(sorted(random.sample(TOPICS, random.randint(1, 2))))


def _subscribe(random: Random) -> Step:
    how = random.choice(("name", "name", "pattern", "assignment"))
    reset = random.choice(("earliest", "earliest", *RESETS))
    return ("subscribe", _agent(random), _topics(random), how, random.choice(KINDS), reset)


def _newcomer(random: Random) -> tuple[Step, ...]:
    """It reads, and tells of one partition."""
    subscribes = _subscribe(random)
    agent = subscribes[1]
    tells = ("tell", agent, random.choice(ENABLED), random.choice((0, 0, 1)))
    return (subscribes, ("read", agent, random.randint(1, 5)), tells)


def _new_application(random: Random) -> tuple[Step, ...]:
    """A streams application is restarted, and tells of one of its topics."""
    subscribes = ("subscribe", "g3", ENABLED, "name", "streams", "earliest")
    tells = ("tell", "g3", random.choice(ENABLED), 0)
    return (("vanish", "g3"), subscribes, ("read", "g3", random.randint(1, 5)), tells)


def _missed_by_a_wrong_clock(random: Random) -> tuple[Step, ...]:
    return (("vanish", _agent(random)), ("lapse", random.choice(SKEWS_MS)))


def _goes_back_unseen(random: Random) -> tuple[Step, ...]:
    """A reader goes back while retentiond stands still."""
    stands_still = ("advance", random.choice((6_000, 20_000, 28_000)))
    return (("reset", _agent(random), random.choice(RESETS)), stands_still)


def _broken(random: Random) -> Step:
    one = random.choice
    return one(
        (
            ("breaks", "fail", one(("commits", "members")), one(GROUPS)),
            ("breaks", "fail", one(("describe_topics", "topic_configs")), _topic(random)),
            (
                "breaks",
                "fail_offsets",
                _topic(random),
                one((0, 1)),
                one((None, "log_start", "high_watermark", "last_stable")),
            ),
            ("breaks", "end_next_deletions", one([*HowDeletionEnds]).value),
            ("breaks", "end_next_deletions", one([*HowDeletionEnds]).value),
            ("breaks", "thaw"),
            ("breaks", "move_leader", _topic(random), one((0, 1)), one((1, 2, 3))),
            ("breaks", "migrate", one((0, 1, 2)), one((1, 2, 3)), one((True, False))),
            ("breaks", "migrate", one((0, 1, 2)), one((1, 2, 3)), one((True, False))),
            ("breaks", "rebalance", one(GROUPS)),
            ("breaks", "spoil", one(GROUPS), _topic(random), one((0, 1))),
            ("breaks", "deny", one(GROUPS)),
            ("breaks", "hide_coordinators"),
            ("breaks", "stop_clock"),
            ("breaks", "kill_broker", one((1, 2, 3)), one((True, False))),
            (
                "configure",
                _topic(random),
                *one(
                    (
                        ("cleanup.policy", "compact"),
                        ("cleanup.policy", "compact,delete"),
                        ("retention.ms", "60000"),
                        ("retention.ms", "-1"),
                    )
                ),
            ),
        )
    )


CLIENTS = ("both", "both", "reading", "deleting")
AGES_MS = (3 * HOUR_MS, 3 * HOUR_MS, 61_000, 0, -HOUR_MS)
SOON_AND_LATE_MS = (1_000, 6_000, 31_000, HOUR_MS, 3 * HOUR_MS)
SKEWS_MS = (-40 * DAY_MS, -2 * HOUR_MS, 2 * HOUR_MS, DAY_MS, 0)


def _busy(random: Random) -> Step:
    but = random.choice((_agent(random), ""))
    return ("busy", random.randint(1, 4), random.choice(AGES_MS), random.choice((0, 0, 1, 2)), but)


def _fills_up(random: Random) -> tuple[Step, ...]:
    """What is written and read just now fills the disks, and somebody may go back in it."""
    full = [("fill_disk", number, broker) for number in (0, 1) for broker in (1, 2, 3)]
    return (
        ("heal",),
        ("resume",),
        ("busy", random.randint(2, 6), 0, random.choice((0, 0, 1)), ""),
        *random.sample(full, random.randint(3, 6)),
        _cycle(random, (FULL_DISK,)),
    )


def _produce(random: Random) -> Step:
    where = (random.choice((0, 0, 1)), random.choice(TOPICS), random.choice((0, 1)))
    return ("produce", *where, random.randint(1, 6), random.choice(AGES_MS))


def _recreate(random: Random) -> Step:
    records = random.choice((0, 20, 100))
    return ("recreate", _topic(random), random.choice((1, 2)), records, random.random() < 0.5)


MENU: tuple[tuple[int, Callable[[Random], tuple[Any, ...]], str | None], ...] = (
    (20, _busy, None),
    (14, lambda _: ("heal",), None),
    (14, _broken, None),
    (6, _subscribe, None),
    (4, _newcomer, None),
    (6, lambda r: ("crash", _agent(r)), None),
    (5, lambda r: ("vanish", _agent(r)), None),
    (2, lambda r: ("expire", _agent(r), _topic(r)), None),
    (4, lambda r: ("come_back", _agent(r)), None),
    (3, lambda r: ("reset", _agent(r), r.choice(RESETS)), None),
    (2, lambda _: ("move", "g3"), None),
    (3, lambda r: ("read", _agent(r), r.randint(1, 5)), None),
    (4, lambda r: ("tell", _agent(r), r.choice(TOPICS), r.choice((0, 1))), None),
    (4, lambda r: ("catch_up", r.choice((0, 0, 1)), r.choice((0, 1)), _agent(r)), None),
    (5, _produce, None),
    (1, lambda r: ("begin", _topic(r), r.choice((0, 1))), None),
    (1, lambda _: ("end",), None),
    (6, lambda r: ("advance", r.choice(SOON_AND_LATE_MS)), None),
    (4, _recreate, None),
    (1, lambda r: ("delete_topic", _topic(r)), None),
    (1, lambda r: ("add_partition", _topic(r)), None),
    (1, lambda r: ("set_back", _topic(r), r.choice((0, 1)), r.randint(1, 200)), None),
    (2, lambda r: ("restart", *r.choice(((0, 0), (0, 0), (1, 1)))), None),
    (2, lambda r: ("forget", r.choice(GROUPS)), None),
    (1, lambda _: ("pause",), None),
    (2, lambda _: ("resume",), None),
    (1, lambda _: ("damage",), None),
    (2, lambda _: ("accept",), None),
    (4, _new_application, UNDESCRIBED),
    (6, lambda r: ("breaks", "fail", "members", r.choice(("g1", "g2", "g3", "g3"))), UNDESCRIBED),
    (4, _goes_back_unseen, FROZEN),
    (2, lambda r: ("set_clock", r.choice(SKEWS_MS)), WRONG_CLOCK),
    (2, lambda r: ("lapse", r.choice(SKEWS_MS)), WRONG_CLOCK),
    (4, _missed_by_a_wrong_clock, WRONG_CLOCK),
    (2, lambda r: ("truncate", _topic(r), r.choice((0, 1)), r.randint(1, 6)), STALE_COMMIT),
    (3, _fills_up, FULL_DISK),
    (2, lambda r: ("fill_disk", r.choice((0, 0, 1)), r.randint(1, 3)), FULL_DISK),
    (2, lambda r: ("empty_disk", r.choice((0, 0, 1)), r.randint(1, 3)), FULL_DISK),
    (4, lambda r: ("fail_over", r.choice(CLIENTS), r.choice((0, 1))), FAILOVER),
    (4, lambda _: ("detour",), OTHER_STATE),
    (1, lambda _: ("restart", 1, 0), OTHER_STATE),
)
"""How often each is made, how it is drawn, and what must be allowed for it."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options.add_argument("--may", action="append", choices=EVERYTHING, help="default: everything")
    options.add_argument("--as-found", action="store_true", help="shorten nothing")
    options.add_argument("--nothing", action="store_true", help="nothing beside the usual")
    given = options.parse_args()
    may = () if given.nothing else given.may or EVERYTHING
    met, life = walk(given.seed, given.steps, may)
    print(f"seed {given.seed}: {met['steps']} steps, {met['requests']} requests")
    if life is not None:
        sys.exit(f"{live(life)[1]}" if given.as_found else told(life))
    print(dict(met.most_common()))


if __name__ == "__main__":
    main()
