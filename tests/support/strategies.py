"""Made-up evidence for the plan: small worlds in which offsets meet and things go wrong.

Offsets come from a tiny range, so that every two of them are equal or next to each other again
and again; a trouble is rare enough that the reasons behind it in the order come up, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from retentiond.config import ExternalReader, PolicyConflict, PolicyUnreadable, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import VANISHED, GroupReading, TopicReading, namesake_id
from tests.support.builders.guard_readings import Commits, Reading, group, partition, topic

GROUPS = ("B", "a", "a-b", "ab", "é")  # in the order of their code points, which is no dictionary's
STRANGER = "C"  # a group that only a policy names
LOST = Failure("TIMED_OUT", "no answer")
HIDDEN = ("DESCRIBE on the cluster is denied",)
UNREADABLE = PolicyUnreadable("policies.d/c.yaml", "policies.d/c.yaml: line 2", "search")
CONFLICT = PolicyConflict(("topics[0]", "policies.d/b.yaml: topics[1]"), "payments")

EXTERNAL_READERS = {
    name: ExternalReader.model_validate({"name": name, "offsets": f"/positions/{name}.json"})
    for name in ("a", "B")
}

offsets = st.integers(0, 5)
high_offsets = st.integers(3, 6)


def seldom(one_in: int) -> st.SearchStrategy[bool]:
    """Shrinks to False."""
    return st.sampled_from([False] * (one_in - 1) + [True])


TOPIC_TROUBLES: list[dict[str, object]] = [
    {"policy": CONFLICT},
    {"policy": UNREADABLE},
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
        [()] * 8 + [(Pattern("a"),), (Pattern("a.*"), Pattern("é")), (Pattern(".+"),)]
    ),
    only=st.sampled_from(
        [()] * 8 + [(Pattern("a.*"),), (Pattern("B"), Pattern("é|ab")), (Pattern(".+"),)]
    ),
    min_groups=st.sampled_from([1, 1, 1, 2, 1, 3]),
    external_readers=st.sampled_from([()] * 5 + [(each,) for each in EXTERNAL_READERS.values()]),
    allow_compacted=st.booleans(),
    assumes_visible_groups=st.booleans(),
    owner=st.sampled_from([None, "payments"]),
    dry_run=st.booleans(),
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
def worlds(draw: st.DrawFn) -> Reading:  # noqa: PLR0912 - one branch for each trouble
    """One or two topics, up to four partitions, up to four groups, and their troubles."""
    world = Reading()
    for name in draw(st.sampled_from([("t",), ("t", "T")])):
        world.topics[name] = draw(topics(name))
        for number in range(draw(st.integers(1, 2))):
            draw_partition(draw, world, TopicPartition(name, number))
    count = draw(st.sampled_from([2, 1, 3, 4, 2, 3, 1, 2, 0]))
    names = draw(st.permutations(GROUPS))[:count]
    gaps, unreadable, rewinds = draw(seldom(3)), draw(seldom(8)), draw(seldom(3))
    past = rewinds or draw(seldom(5))
    for name in names:
        world.groups[name] = replace(
            group(name),
            state=draw(st.sampled_from(["Stable", "Empty"])),
            kind=draw(
                st.sampled_from(
                    [*[GroupKind.CLASSIC] * 4, *[GroupKind.SHARE] * 2, GroupKind.EXTERNAL]
                )
            ),
        )
        for at in world.partitions:
            if not (gaps and draw(seldom(3))):
                world.commits[name, at] = draw(offsets if rewinds else high_offsets)
            if unreadable and draw(seldom(4)):
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
        world.remembered[gone, at] = draw(offsets)
    draw_epochs(draw, world)
    for name in draw(st.sampled_from([(), (), (), names[:1], GROUPS[:1]])):
        world.readers.add((name, draw(st.sampled_from(sorted(world.topics)))))
    if draw(seldom(6)):  # one that was seen to read, listed or not
        seen = draw(st.sampled_from(GROUPS)), draw(st.sampled_from(sorted(world.topics)))
        world.remembered_readers.add(seen)
    draw_changelog(draw, world)
    if draw(seldom(12)):
        broken = draw(st.sampled_from(GROUPS))
        world.groups[broken] = replace(group(broken), failure=LOST)
    if draw(seldom(12)):
        world.problems = ("broker 1 is down",)
    return with_everybody_named(world)


def draw_changelog(draw: st.DrawFn, world: Reading) -> None:
    """Seldom. A topology reads whatever it restores its state from."""
    if draw(seldom(10)):
        restores = (draw(st.sampled_from(GROUPS)), draw(st.sampled_from(sorted(world.topics))))
        world.changelogs.add(restores)
        world.readers.add(restores)


def draw_epochs(draw: st.DrawFn, world: Reading) -> None:
    """Seldom, the leaders have changed since some of the commits, or the topic has."""
    if draw(seldom(12)):
        world.stale = {key for key in sorted(world.commits) if draw(st.booleans())}
    if draw(seldom(12)):
        told: dict[TopicPartition, tuple[int, int | None, int | None]] = {}  # by its leader
        for at in sorted(world.partitions):
            known = draw(st.sampled_from([3, 3, 2, None]))
            told[at] = (3, known, None if known is None else draw(high_offsets))
        for group_id, at in sorted(world.commits):
            # of a commit that can't be read no epoch is told
            if world.commits[group_id, at] is not None and draw(st.booleans()):
                world.epochs[group_id, at] = told[at]


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
    seen = {name for name, _ in (*world.remembered, *world.remembered_readers)}
    for name in seen - world.groups.keys():
        world.groups[name] = GroupReading(name, GroupKind.CLASSIC, VANISHED)
    named = {name for name, _ in (*world.commits, *world.remembered, *world.readers)}
    for name in named - world.groups.keys():
        world.groups[name] = GroupReading(name, GroupKind.UNKNOWN, "Absent")
    for each in world.topics.values():
        if isinstance(each.policy, TopicPolicy):
            own = {reader.name for reader in each.policy.external_readers}
            for name in each.policy.required_groups:
                add_required(world, name, is_external=name in own)
    return world


def add_required(world: Reading, name: str, *, is_external: bool) -> None:
    """As a reading does, which gives the second reader of a name another id."""
    known = {(each.name, each.is_external) for each in world.groups.values()}
    if (name, is_external) not in known:
        kind, state = (
            (GroupKind.EXTERNAL, "External") if is_external else (GroupKind.UNKNOWN, "Absent")
        )
        is_taken = name in world.groups
        group_id = namesake_id(name, is_external=is_external) if is_taken else name
        world.groups[group_id] = GroupReading(
            group_id, kind, state, namesake_of=name if is_taken else None
        )


@st.composite
def worse(draw: st.DrawFn, world: Reading) -> Reading:
    """The world with less evidence, or with one more group that wants to read."""
    poorer = deepcopy(world)
    key = draw(st.sampled_from(sorted(world.commits))) if world.commits else None
    name = draw(st.sampled_from(sorted(world.groups))) if world.groups else None
    kinds = ("unreadable", "gone", "failed", "incomplete", "newcomer", "recalled", "crashed")
    match draw(st.sampled_from(kinds)):
        case "unreadable" if key:
            poorer.commits[key] = None
            poorer.epochs.pop(key, None)
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
        case "crashed":
            poorer.groups["crashed"] = replace(group("crashed"), state=VANISHED)
            topic_name = draw(st.sampled_from(sorted(poorer.topics)))
            poorer.remembered_readers.add(("crashed", topic_name))
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
        others = Pattern("|".join(each for each in failed if not each.startswith(re.escape(mine))))
        for topic_name, each in world.topics.items():
            policy = each.policy
            if isinstance(policy, TopicPolicy):
                policy = moved(policy, mine, others)
            merged.topics[mine + topic_name] = replace(each, name=mine + topic_name, policy=policy)
        for group_id, reading in world.groups.items():
            merged.groups[mine + group_id] = replace(
                reading,
                group_id=mine + group_id,
                namesake_of=reading.namesake_of and mine + reading.namesake_of,
            )
        for at, offsets_of in world.partitions.items():
            merged.partitions[at._replace(topic=mine + at.topic)] = offsets_of
        merged.commits |= moved_commits(world.commits, mine)
        merged.remembered |= moved_commits(world.remembered, mine)
        merged.epochs |= {
            (mine + name, at._replace(topic=mine + at.topic)): epochs
            for (name, at), epochs in world.epochs.items()
        }
        merged.stale |= {
            (mine + name, at._replace(topic=mine + at.topic)) for name, at in world.stale
        }
        merged.readers |= {(mine + name, mine + at) for name, at in world.readers}
        merged.remembered_readers |= {
            (mine + name, mine + at) for name, at in world.remembered_readers
        }
        merged.changelogs |= {(mine + name, mine + at) for name, at in world.changelogs}
    return merged


def forty_worlds() -> Reading:
    """Complete ones, side by side; the same in each run."""
    made: list[Reading] = []

    @settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds())
    def collect(world: Reading) -> None:
        made.append(world)

    collect()
    return together([world for world in made if not world.problems][:40])


def prefix(number: int) -> str:
    return f"{number:04}."


def moved(policy: TopicPolicy, mine: str, others: Pattern) -> TopicPolicy:
    def own(patterns: Iterable[Pattern]) -> list[Pattern]:
        return [Pattern(f"{re.escape(mine)}(?:{regex.pattern})") for regex in patterns]

    return replace(
        policy,
        required_groups=tuple(mine + name for name in policy.required_groups),
        excluded=(*own(policy.excluded), others),
        only=tuple(own(policy.only)),
        external_readers=tuple(
            each.model_copy(update={"name": mine + each.name}) for each in policy.external_readers
        ),
    )


def patterns_before(mine: str, only_groups: str) -> str:
    """What `moved` has made ``only_groups`` of."""
    patterns = only_groups.split(f"{re.escape(mine)}(?:")[1:]
    return "|".join(each.removesuffix("|").removesuffix(")") for each in patterns)


def moved_commits(commits: Commits, mine: str) -> Commits:
    return {
        (mine + name, at._replace(topic=mine + at.topic)): offset
        for (name, at), offset in commits.items()
    }


READERS = ("readers", "remembered_readers")


def simpler(world: Reading) -> Iterator[Reading]:
    """The worlds with one thing less, to find the smallest in which something goes wrong."""
    named = (*READERS, "changelogs")
    for key in sorted(world.stale):
        less = deepcopy(world)
        less.stale.remove(key)
        yield less
    for field in ("topics", "partitions", "groups", "commits", "remembered", "epochs", *named):
        for key in sorted(getattr(world, field)):
            less = deepcopy(world)
            whole = getattr(less, field)
            whole.remove(key) if field in named else whole.pop(key)
            less.partitions = {
                at: v for at, v in less.partitions.items() if at.topic in less.topics
            }
            less.commits = standing(less, less.commits)
            less.remembered = standing(less, less.remembered)
            less.stale &= less.commits.keys()
            less.epochs = {key: each for key, each in less.epochs.items() if key in less.commits}
            for field_of_pairs in named:
                pairs = getattr(less, field_of_pairs)
                pairs.intersection_update(
                    {(name, at) for name, at in pairs if name in less.groups and at in less.topics}
                )
            yield with_everybody_named(less)


def standing(world: Reading, commits: Commits) -> Commits:
    """The commits whose group and partition are still there."""
    return {
        (name, at): offset
        for (name, at), offset in commits.items()
        if name in world.groups and at in world.partitions
    }
