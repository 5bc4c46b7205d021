"""Lives of the model: ways in which readers have lost records once, and what is rare in a walk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from retentiond import clock
from retentiond.gather import groups
from retentiond.kafka.interface import GroupMembers
from retentiond.memory.readers import Readers
from retentiond.model import Failure, GroupKind, Reason
from retentiond.snapshot import Flags, Integers
from tests.property.model.harm import Harm
from tests.property.model.rules import DAY_MS, HOUR_MS, Rules
from tests.property.model.walk import Life, Step, live

CYCLE: Step = ("cycle",)


def amid_a_cycle(moment: int | str, *steps: Step) -> Step:
    return ("cycle", "sound", {moment: steps})


def has_read_half(agent: str, topic: str) -> tuple[Step, ...]:
    """It subscribes to one topic, and commits in the midst of it."""
    tells = (("tell", agent, topic, partition) for partition in (0, 1))
    return (("subscribe", agent, (topic,)), ("read", agent, 2), *tells)


NOTHING_GOES_FROM_B: tuple[Step, ...] = (
    CYCLE,
    ("produce", 0, "a", 0, 4, 3 * HOUR_MS),
    ("catch_up", 0, 0),
)

IS_GONE_WHEN_MORE_COMES: tuple[Step, ...] = (
    ("crash", "g3"),
    ("vanish", "g3"),
    ("produce", 0, "b", 0, 4, 3 * HOUR_MS),
    ("catch_up", 0, 0),
    CYCLE,
)

WAYS_TO_LOSE: dict[str, tuple[Step, ...]] = {
    "a new reader crashes before its first commit, and its group is still listed": (
        ("subscribe", "g3", ("a",)),
        CYCLE,
        ("crash", "g3"),
        CYCLE,
    ),
    "a new reader crashes before its first commit, and its group is gone": (
        ("subscribe", "g3", ("a",)),
        CYCLE,
        ("crash", "g3"),
        ("vanish", "g3"),
        CYCLE,
    ),
    "a reader of another topic adds this one, and crashes before it commits here": (
        ("subscribe", "g3", ("b",)),
        ("catch_up", 0, 0),
        ("subscribe", "g3", ("a", "b")),
        CYCLE,
        ("crash", "g3"),
        CYCLE,
    ),
    "a reader by pattern crashes before its first commit": (
        ("subscribe", "g3", ("a",), "pattern", "consumer"),
        CYCLE,
        ("crash", "g3"),
        ("vanish", "g3"),
        CYCLE,
    ),
    "a reader that only the second reading shows crashes before its first commit": (
        amid_a_cycle("decide", ("subscribe", "g3", ("a",))),
        ("crash", "g3"),
        ("vanish", "g3"),
        CYCLE,
    ),
    "only the second reading shows a reader of a topic of which nothing goes, and it crashes": (
        *NOTHING_GOES_FROM_B,
        amid_a_cycle("decide", ("subscribe", "g3", ("b",))),
        *IS_GONE_WHEN_MORE_COMES,
    ),
    "only the second reading shows a reader by pattern of such a topic, and it crashes": (
        *NOTHING_GOES_FROM_B,
        amid_a_cycle("decide", ("subscribe", "g3", ("b",), "pattern", "consumer")),
        *IS_GONE_WHEN_MORE_COMES,
    ),
    "only the second reading shows that a reader waits for a topic that is not there yet": (
        ("delete_topic", "b"),
        CYCLE,
        ("heal",),
        ("busy", 4, 3 * HOUR_MS, 0),
        ("delete_topic", "b"),
        amid_a_cycle("decide", ("subscribe", "g3", ("b",))),
        ("crash", "g3"),
        ("vanish", "g3"),
        ("heal",),
        ("busy", 4, 3 * HOUR_MS, 0),
        CYCLE,
        CYCLE,
        CYCLE,
    ),
    "a topic is recreated while one of its readers is away": (
        CYCLE,
        ("crash", "g1"),
        ("recreate", "a", 2, 4, False),
        CYCLE,
        ("catch_up", 0, 0),
        CYCLE,
    ),
    "both clients come to another cluster after the last reading": (
        ("produce", 0, "a", 0, 4),
        ("produce", 1, "a", 0, 4),
        ("catch_up", 0, 0),
        amid_a_cycle("after intend", ("fail_over", "both", 1)),
    ),
    "the client that deletes comes to another cluster than the one that reads": (
        ("produce", 0, "a", 0, 4),
        ("produce", 1, "a", 0, 4),
        ("catch_up", 0, 0),
        ("fail_over", "deleting", 1),
        CYCLE,
        CYCLE,
    ),
    "the state is used for another cluster, and then for its own again": (
        *has_read_half("g3", "a"),
        CYCLE,
        ("crash", "g3"),
        ("vanish", "g3"),
        CYCLE,
        ("restart", 1, 0),
        CYCLE,
        ("restart", 0, 0),
        CYCLE,
        CYCLE,
    ),
    "a topic is recreated between the second reading and the request": (
        amid_a_cycle("before intend", ("recreate", "a", 2, 100, False)),
    ),
    "a streams application that can't be described has commits elsewhere": (
        ("subscribe", "g3", ("a", "b"), "name", "streams"),
        ("read", "g3", 4),
        ("tell", "g3", "b", 0),
        ("advance", 6_000),
        ("breaks", "fail", "members", "g3"),
        CYCLE,
    ),
    "the host's clock is far behind when a group is missed, and then right": (
        *has_read_half("g3", "a"),
        CYCLE,
        ("crash", "g3"),
        ("vanish", "g3"),
        ("set_clock", -40 * DAY_MS),
        CYCLE,
        ("set_clock", 0),
        CYCLE,
    ),
    "a log loses its end, and grows past a commit that was made on it": (
        ("truncate", "a", 0, 2),
        ("produce", 0, "a", 0, 4),
        ("advance", 6_000),
        CYCLE,
    ),
    "a topic is recreated, and the commits on it are older than it": (
        CYCLE,
        ("recreate", "a", 2, 0, True),
        ("read", "g1", 1),
        ("read", "g2", 1),
        ("produce", 0, "a", 0, 6, 3 * HOUR_MS),
        ("advance", 6_000),
        CYCLE,
        CYCLE,
    ),
    "a reader's commits are answered in a cycle whose members can't be asked, and it is gone": (
        *has_read_half("g3", "a"),
        amid_a_cycle("members", ("cut",)),
        ("vanish", "g3"),
        CYCLE,
    ),
    "a reader waits for a topic that is not there yet, and is gone when it comes": (
        ("delete_topic", "b"),
        CYCLE,
        ("heal",),
        ("vanish", "g1"),
        ("busy", 4, 3 * HOUR_MS, 0),
        CYCLE,
        CYCLE,
        CYCLE,
    ),
    "the process is frozen between the second reading and the request": (
        amid_a_cycle("before intend", ("reset", "g1", "earliest"), ("advance", 28_000)),
    ),
}


@pytest.mark.parametrize("steps", WAYS_TO_LOSE.values(), ids=WAYS_TO_LOSE)
def test_no_reader_loses_a_record_when(steps: tuple[Step, ...]) -> None:
    _met, harm = live(Life(steps, Rules(forget_ms=2 * HOUR_MS)))

    assert harm is None


def test_a_guard_that_is_alone_holds_what_the_plan_would_delete() -> None:
    met, harm = live(Life((("catch_up", 0, 0), *has_read_half("g3", "a"), ("cycle", "reckless"))))

    assert harm is None
    assert met[Reason.EVIDENCE_CHANGED]


GOES_BACK_TOO_LATE: tuple[Step, ...] = (
    ("breaks", "end_next_deletions", "times_out_late"),
    CYCLE,
    ("reset", "g1", "earliest"),
    ("breaks", "thaw"),
    ("produce", 0, "a", 0, 2),
)


@pytest.mark.parametrize(
    ("rare", "reason", "rules"),
    [
        ((), Reason.TOO_FEW_GROUPS, Rules(min_groups=3)),
        ((("pause",),), Reason.PAUSED, Rules()),
        (
            (("vanish", "g1"), ("vanish", "g2"), CYCLE, ("forget", "g1"), ("forget", "g2")),
            Reason.NO_GROUP,
            Rules(),
        ),
        ((("subscribe", "g3", ("a",)),), Reason.GROUP_WITHOUT_COMMIT, Rules()),
        (GOES_BACK_TOO_LATE, Reason.COMMIT_REWOUND, Rules()),
        ((("truncate", "b", 0, 1),), Reason.COMMIT_BEYOND_END, Rules()),
        ((CYCLE, ("begin", "a", 0)), Reason.OPEN_TRANSACTION, Rules()),
        ((("configure", "a", "cleanup.policy", "compact"),), Reason.NOT_DELETABLE, Rules()),
        (
            (("configure", "a", "retention.ms", "0"),),
            Reason.RETENTION_EXCEEDS_FORCED,
            Rules(age_ms=HOUR_MS),
        ),
    ],
)
def test_what_is_rare_comes_up(rare: tuple[Step, ...], reason: Reason, rules: Rules) -> None:
    """With it, each reason of a topic with a policy comes up, here or in `test_model`."""
    steps: tuple[Any, ...] = (CYCLE, ("busy", 2, 3 * HOUR_MS, 0), *rare, CYCLE)
    met, harm = live(Life(steps, rules))

    assert harm is None
    assert met[reason]


def told_by_commits(group: Any, commits: Any, members: Any) -> Failure | None:
    """In place of the census's: a streams group's commits stand for its topology."""
    if isinstance(members, Failure) and group.kind is GroupKind.STREAMS and commits:
        members = GroupMembers(frozenset())
    return FAILURE_OF(group, commits, members)


def forgotten_by_dates(readers: Readers, topic_of: Integers, topics: Sequence[Any]) -> Flags:
    """In place of the time that was observed: the difference of two dates."""
    forget_ms = [topic.policy.forget_vanished_after_ms for topic in topics]
    waited_ms = np.array([*forget_ms, math.inf], float)[topic_of]  # None is NaN: for ever
    now_ms = clock.time.time_ns() // 1_000_000  # type: ignore[attr-defined]  # the world's
    since_ms = readers.column("absent_since_ms").fill_null(now_ms).to_numpy()
    are: Flags = readers.is_absent & (now_ms - since_ms >= waited_ms)
    return are


FAILURE_OF = groups._failure

NO_READERS: tuple[str, Any] = (
    "retentiond.memory.recall._readers_without_commit",
    lambda *_: np.empty(0, np.int64),
)
NO_LOOK: tuple[str, Any] = (
    "retentiond.act.request.Requester._last_look",
    lambda *_: {},
)
NO_IDENTITY: tuple[str, Any] = (
    "retentiond.kafka.cluster_identity.ClusterIdentity.check",
    lambda *_: None,
)

NO_MEMORY_OF_COMMITS: tuple[str, Any] = (
    "retentiond.memory.recall.are_stale",
    lambda commits, *_: np.zeros(len(commits), np.bool_),
)

NOBODY_WAITS: tuple[str, Any] = ("retentiond.gather.gather._awaited", lambda *_: {})

NOBODY_BESIDE: tuple[str, Any] = (
    "retentiond.gather.gather._readers_of_other_topics",
    lambda *_: {},
)

WITHOUT: dict[str, tuple[tuple[str, Any], ...]] = {
    "a new reader crashes before its first commit, and its group is still listed": (NO_READERS,),
    "a new reader crashes before its first commit, and its group is gone": (NO_READERS,),
    "a reader of another topic adds this one, and crashes before it commits here": (NO_READERS,),
    "a reader by pattern crashes before its first commit": (NO_READERS,),
    "a reader that only the second reading shows crashes before its first commit": (
        (
            "retentiond.state.groups.GroupMemory.remember_newcomers",
            lambda _memory, _second, _shown, before: before,
        ),
    ),
    "only the second reading shows a reader of a topic of which nothing goes, and it crashes": (
        NOBODY_BESIDE,
    ),
    "only the second reading shows a reader by pattern of such a topic, and it crashes": (
        NOBODY_BESIDE,
    ),
    "only the second reading shows that a reader waits for a topic that is not there yet": (
        NOBODY_BESIDE,
    ),
    "a topic is recreated while one of its readers is away": (NO_READERS,),
    "both clients come to another cluster after the last reading": (NO_IDENTITY, NO_LOOK),
    "the client that deletes comes to another cluster than the one that reads": (
        NO_IDENTITY,
        NO_LOOK,
    ),
    "the state is used for another cluster, and then for its own again": (
        NO_READERS,
        NO_MEMORY_OF_COMMITS,
        ("retentiond.gather.gather.refuse_another_cluster", lambda *_: None),
        ("retentiond.state.groups.refuse_another_cluster", lambda *_: None),
    ),
    "a topic is recreated between the second reading and the request": (NO_LOOK,),
    "a streams application that can't be described has commits elsewhere": (
        ("retentiond.gather.groups._failure", told_by_commits),
    ),
    "the host's clock is far behind when a group is missed, and then right": (
        ("retentiond.memory.recall.are_forgotten", forgotten_by_dates),
    ),
    "a log loses its end, and grows past a commit that was made on it": (
        ("retentiond.gather.gather.with_epochs", lambda snapshot, _kafka: snapshot),
    ),
    "a topic is recreated, and the commits on it are older than it": (NO_MEMORY_OF_COMMITS,),
    "a reader waits for a topic that is not there yet, and is gone when it comes": (NOBODY_WAITS,),
    "the process is frozen between the second reading and the request": (
        ("retentiond.act.delete._Run.objection", lambda _: None),
        ("retentiond.act.delete._Run.not_after", math.inf),
    ),
}
"""What keeps each of them from happening, and what stands in its place when it is taken out."""


@pytest.mark.parametrize("name", WITHOUT)
def test_without_its_mend_the_reader_loses_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the life above would prove nothing."""
    for part, stand_in in WITHOUT[name]:
        monkeypatch.setattr(part, stand_in)
    _met, harm = live(Life(WAYS_TO_LOSE[name], Rules(forget_ms=2 * HOUR_MS)))

    assert isinstance(harm, Harm)
