"""Made-up evidence for the plan: small worlds in which offsets meet and things go wrong.

Offsets come from a tiny range, so that every two of them are equal or next to each other again
and again; a trouble is rare enough that the reasons behind it in the order come up, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

from hypothesis import strategies as st

from retentiond.collect.snapshot import GroupReading, TopicReading
from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.unit.act.readings import Commits, Reading, group, partition, topic

GROUPS = ("B", "a", "a-b", "ab", "é")  # in the order of their code points, which is no dictionary's
STRANGER = "C"  # a group that only a policy names
LOST = Failure("TIMED_OUT", "no answer")
HIDDEN = ("DESCRIBE on the cluster is denied",)
CONFLICT = PolicyConflict(("topics[0]", "topics[1]"))

offsets = st.integers(0, 5)
high_offsets = st.integers(3, 6)


def seldom(one_in: int) -> st.SearchStrategy[bool]:
    """Shrinks to False."""
    return st.sampled_from([False] * (one_in - 1) + [True])


TOPIC_TROUBLES: list[dict[str, object]] = [
    {"policy": CONFLICT},
    {"is_internal": True},
    {"is_internal": True, "policy": CONFLICT},
    {"cleanup_policy": frozenset({"compact"})},
    {"cleanup_policy": frozenset({"compact", "delete"})},
    {"cleanup_policy": frozenset()},
    {"failure": LOST, "cleanup_policy": frozenset(), "forced_retention_ms": None},
    {"failure": LOST, "topic_id": None},
    {"forced_retention_ms": 59_999},
    {"recreated": True},
    {"recreated": True, "forced_retention_ms": 0},
]

policies = st.builds(
    TopicPolicy,
    enabled=st.just(True),
    consumed_retention_ms=st.sampled_from([60_000, 0, 60_000]),
    required_groups=st.sampled_from([()] * 8 + [("a",), ("B", "ab"), (STRANGER, "é")]),
    excluded=st.sampled_from(
        [()] * 8 + [(re.compile("a"),), (re.compile("a.*"), re.compile("é")), (re.compile(".+"),)]
    ),
    min_groups=st.sampled_from([1, 1, 1, 2, 1, 3]),
    allow_compacted=st.booleans(),
    assumes_visible_groups=st.booleans(),
)


@st.composite
def topics(draw: st.DrawFn, name: str) -> TopicReading:
    made = replace(
        topic(name),
        policy=draw(policies),
        forced_retention_ms=draw(st.sampled_from([3_600_000, 60_000, None])),
    )
    if draw(seldom(5)):
        made = replace(made, **draw(st.sampled_from(TOPIC_TROUBLES)))  # type: ignore[arg-type]  # any field
    return made


@st.composite
def worlds(draw: st.DrawFn) -> Reading:
    """One or two topics, up to four partitions, up to four groups, and their troubles."""
    world = Reading()
    for name in draw(st.sampled_from([("t",), ("t", "T")])):
        world.topics[name] = draw(topics(name))
        for number in range(draw(st.integers(1, 2))):
            draw_partition(draw, world, TopicPartition(name, number))
    count = draw(st.sampled_from([2, 1, 3, 4, 2, 3, 1, 2, 0]))
    names = draw(st.permutations(GROUPS))[:count]
    gaps, unread, rewinds = draw(seldom(3)), draw(seldom(8)), draw(seldom(3))
    past = rewinds or draw(seldom(5))
    for name in names:
        world.groups[name] = replace(group(name), state=draw(st.sampled_from(["Stable", "Empty"])))
        for at in world.partitions:
            if not (gaps and draw(seldom(3))):
                world.commits[name, at] = draw(offsets if rewinds else high_offsets)
            if unread and draw(seldom(4)):
                world.commits[name, at] = None
            if past and draw(seldom(2)):
                world.remembered[name, at] = draw(offsets)
    if draw(seldom(4)) and names:  # a group that went back, perhaps below the log start
        at = draw(st.sampled_from(sorted(world.partitions)))
        world.change_partition(at, log_start_offset=2)
        world.commits[names[0], at] = draw(st.integers(0, 3))
        world.remembered[names[0], at] = draw(st.integers(0, 3))
    if draw(seldom(12)):  # a group that is remembered, and nothing else
        gone, at = draw(st.sampled_from(GROUPS)), draw(st.sampled_from(sorted(world.partitions)))
        world.remembered[gone, at] = draw(st.none() | offsets)
    for name in draw(st.sampled_from([(), (), (), names[:1], GROUPS[:1]])):
        world.readers.add((name, draw(st.sampled_from(sorted(world.topics)))))
    if draw(seldom(12)):
        broken = draw(st.sampled_from(GROUPS))
        world.groups[broken] = replace(group(broken), failure=LOST)
    if draw(seldom(12)):
        world.problems = ("broker 1 is down",)
    return with_everybody_named(world)


def draw_partition(draw: st.DrawFn, world: Reading, at: TopicPartition) -> None:
    """The last stable offset is the high watermark, unless a transaction is open."""
    start, end = draw(st.integers(0, 3)), draw(high_offsets)
    drawn: dict[str, int | None] = {
        "log_start_offset": start,
        "high_watermark": end,
        "last_stable_offset": draw(offsets) if draw(seldom(4)) else end,
        "retention_offset": draw(offsets | st.just(end)),
    }
    if draw(seldom(15)):
        drawn[draw(st.sampled_from(sorted(drawn)))] = None
    failure = LOST if draw(seldom(25)) else None
    world.partitions[at] = replace(partition(at.partition), **drawn, failure=failure)  # type: ignore[arg-type]  # by name


def with_everybody_named(world: Reading) -> Reading:
    """A snapshot's groups hold everybody whom its tables or policies name."""
    named = {name for name, _ in (*world.commits, *world.remembered, *world.readers)}
    for each in world.topics.values():
        if isinstance(each.policy, TopicPolicy):
            named.update(each.policy.required_groups)
    for name in named - world.groups.keys():
        world.groups[name] = GroupReading(name, GroupKind.UNKNOWN, "Absent")
    return world


@st.composite
def worse(draw: st.DrawFn, world: Reading) -> Reading:
    """The world with less evidence, or with one more group that wants to read."""
    poorer = deepcopy(world)
    key = draw(st.sampled_from(sorted(world.commits))) if world.commits else None
    name = draw(st.sampled_from(sorted(world.groups))) if world.groups else None
    match draw(st.sampled_from(["unread", "gone", "failed", "incomplete", "newcomer", "recalled"])):
        case "unread" if key:
            poorer.commits[key] = None
        case "gone" if key:  # the group is still known to read the topic
            del poorer.commits[key]
            poorer.readers.add((key[0], key[1].topic))
        case "failed" if name:
            poorer.groups[name] = replace(poorer.groups[name], failure=LOST)
        case "newcomer":
            poorer.groups["newcomer"] = group("newcomer")
            for at in poorer.partitions:
                if draw(st.booleans()):
                    poorer.commits["newcomer", at] = draw(st.none() | offsets)
            poorer.readers.add(("newcomer", draw(st.sampled_from(sorted(poorer.topics)))))
        case "recalled" if name:
            poorer.remembered[name, draw(st.sampled_from(sorted(poorer.partitions)))] = 6
        case _:
            poorer.problems = ("broker 1 is down",)
    return poorer


def together(worlds: list[Reading]) -> Reading:
    """Many worlds as one, side by side, under the names of `prefix`.

    A failed group would hold every topic of every world, so each policy excludes those of the
    other worlds. All worlds must be complete, or none.
    """
    failed = [
        re.escape(prefix(number) + each.group_id)
        for number, world in enumerate(worlds)
        for each in world.groups.values()
        if each.failure
    ]
    merged = Reading(problems=worlds[0].problems)
    for number, world in enumerate(worlds):
        mine = prefix(number)
        others = re.compile(rf"(?!{re.escape(mine)})(?:{'|'.join(failed)})")
        for topic_name, each in world.topics.items():
            policy = each.policy
            if isinstance(policy, TopicPolicy):
                policy = moved(policy, mine, others)
            merged.topics[mine + topic_name] = replace(each, name=mine + topic_name, policy=policy)
        for group_id, reading in world.groups.items():
            merged.groups[mine + group_id] = replace(reading, group_id=mine + group_id)
        for at, offsets_of in world.partitions.items():
            merged.partitions[at._replace(topic=mine + at.topic)] = offsets_of
        merged.commits |= moved_commits(world.commits, mine)
        merged.remembered |= moved_commits(world.remembered, mine)
        merged.readers |= {(mine + name, mine + at) for name, at in world.readers}
    return merged


def prefix(number: int) -> str:
    return f"{number:04}."


def moved(policy: TopicPolicy, mine: str, others: re.Pattern[str]) -> TopicPolicy:
    own = [re.compile(f"{re.escape(mine)}(?:{regex.pattern})") for regex in policy.excluded]
    return replace(
        policy,
        required_groups=tuple(mine + name for name in policy.required_groups),
        excluded=(*own, others),
    )


def moved_commits(commits: Commits, mine: str) -> Commits:
    return {
        (mine + name, at._replace(topic=mine + at.topic)): offset
        for (name, at), offset in commits.items()
    }


def simpler(world: Reading) -> Iterator[Reading]:
    """The worlds with one thing less, to find the smallest in which something goes wrong."""
    for field in ("topics", "partitions", "groups", "commits", "remembered", "readers"):
        for key in sorted(getattr(world, field)):
            less = deepcopy(world)
            whole = getattr(less, field)
            whole.remove(key) if field == "readers" else whole.pop(key)
            less.partitions = {
                at: v for at, v in less.partitions.items() if at.topic in less.topics
            }
            less.commits = standing(less, less.commits)
            less.remembered = standing(less, less.remembered)
            less.readers = {
                (name, at) for name, at in less.readers if name in less.groups and at in less.topics
            }
            yield with_everybody_named(less)


def standing(world: Reading, commits: Commits) -> Commits:
    """The commits whose group and partition are still there."""
    return {
        (name, at): offset
        for (name, at), offset in commits.items()
        if name in world.groups and at in world.partitions
    }
