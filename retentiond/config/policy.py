"""Which policy a topic has: what the entries of all files say, put together.

An entry refines the ``defaults`` of its file, which refine those of the main file, which refine
what is built in, setting by setting. An exact name beats every pattern. A pattern that says
``enable: false`` switches its topics off, whatever others say. Patterns that enable a topic and
treat it differently are a conflict, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias

from retentiond.config.external_reader import ExternalReader
from retentiond.config.fences import NO_FENCES, Fences
from retentiond.config.no_policy import (
    FILE_END,
    NoPolicy,
    PolicyConflict,
    PolicyUnreadable,
    UnreadableFile,
    refusal,
)
from retentiond.config.rules import PRESSURE, GroupRules, PolicyFile, TopicEntry, TopicRules
from retentiond.config.settings import TopicPolicy, refined
from retentiond.config.values import is_unknown
from retentiond.errors import ConfigError, together
from retentiond.formatting import listed, say_duration

MOST_KNOWN = 250_000
"""So many topics' policies are kept: more than a cluster has topics."""


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One entry of ``topics``, of the main file or of a team's, and the policy that it gives."""

    entry: TopicEntry
    policy: TopicPolicy
    fences: Fences = NO_FENCES
    is_by_default: bool = False
    """Whether nobody has set its consumed retention."""

    @property
    def source(self) -> str:
        """Where it stands, as ``topics[2]`` or ``policies.d/payments.yaml: topics[2]``."""
        return self.policy.sources[0]

    @property
    def file(self) -> str:
        """The team's file that has it; empty: the main file."""
        return self.source.rpartition(FILE_END)[0]

    @property
    def about(self) -> tuple[str, bool]:
        """The name or the pattern, and whether it is a pattern."""
        if self.entry.pattern is not None:
            return self.entry.pattern.pattern, True
        return self.entry.name or "", False

    @property
    def excepted(self) -> list[str]:
        """The patterns of ``except``, each once, in an order of their own."""
        return sorted({regex.pattern for regex in self.entry.exceptions or ()})

    @property
    def topics(self) -> str:
        text, is_pattern = self.about
        if not is_pattern:
            return text
        besides = f" except {listed(self.excepted)}" if self.excepted else ""
        return f"topics matching {text}{besides}"

    @property
    def switches_off(self) -> bool:
        """Whether it says itself that nothing is deleted: a default does not."""
        return self.entry.enable is False

    def matches(self, topic: str) -> bool:
        """Whether it is a pattern of the topic's."""
        pattern, exceptions = self.entry.pattern, self.entry.exceptions or ()
        return (
            pattern is not None
            and pattern.fullmatch(topic)
            and not any(regex.fullmatch(topic) for regex in exceptions)
            and ((self.switches_off and not self.file) or self.fences.let(self.file, topic))
        )


@dataclass(frozen=True)
class Policies:
    """The policy of every entry, ready to be asked for thousands of topics."""

    entries: tuple[PolicyEntry, ...]  # the main file's first, disabled ones included
    files: tuple[str, ...]  # the teams' files, by name
    fences: Fences
    unreadable: tuple[UnreadableFile, ...]  # fenced files that can't be used
    _of_topics: dict[str, TopicPolicy | NoPolicy | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def _by_name(self) -> Mapping[str, PolicyEntry]:
        return {entry.entry.name: entry for entry in self.entries if entry.entry.name is not None}

    @cached_property
    def _by_pattern(self) -> tuple[PolicyEntry, ...]:
        return tuple(entry for entry in self.entries if entry.entry.pattern is not None)

    def holding(self, files: Iterable[UnreadableFile], *before: Policies) -> Policies:
        """These policies, but that the fenced ``files`` can't be used any more either. Of each file
        that can't be used the queries go on counting that it was known to name, by these policies
        and by those ``before``: its text may name others by now, or be gone."""
        held: dict[str, UnreadableFile] = {}
        for file in (*self.unreadable, *files):
            known = chain.from_iterable(
                policies._queries_of(file.name) for policies in (*before, self)
            )
            queries = tuple(dict.fromkeys((*file.queries, *known)))
            held[file.name] = replace(file, queries=queries)
        return Policies(
            tuple(entry for entry in self.entries if entry.file not in held),
            self.files,
            self.fences,
            tuple(held.values()),
        )

    @property
    def spark_queries(self) -> frozenset[ExternalReader]:
        """They count on each topic that their checkpoints name, whichever policy names them; those
        of a file that can't be used, too, also beside another reader of their name."""
        others = self.readers.items()
        of_unreadable = {  # of a query that is known twice the last one: it was in force
            (query.name, query.spark_checkpoint): query
            for file in self.unreadable
            for query in file.queries
        }
        return frozenset(of_unreadable[reader] for reader in of_unreadable.keys() - others).union(
            query
            for entry in self.entries
            if entry.policy.enabled
            for query in _queries(entry.policy.external_readers)
        )

    def _queries_of(self, file: str) -> Iterator[ExternalReader]:
        """Those that were known before it could no longer be used."""
        for held in self.unreadable:
            if held.name == file:
                yield from held.queries
        for entry in self.entries:
            if entry.file == file:
                yield from _queries(entry.policy.external_readers)

    @property
    def readers(self) -> Mapping[str, object]:
        """What the names of external readers stand for, on enabled topics."""
        return _readers(self.entries)

    def policy_for(self, topic: str) -> TopicPolicy | NoPolicy | None:
        """The policy of an enabled topic; None where nothing enables it. Worked out once."""
        if topic not in self._of_topics:
            if len(self._of_topics) >= MOST_KNOWN:
                self._of_topics.clear()  # topics come and go, and clients subscribe to any name
            self._of_topics[topic] = self._work_out(topic)
        return self._of_topics[topic]

    def matches(self, topic: str) -> bool:
        """Whether an entry is about the topic, be it that it switches it off, or may be."""
        return self.has_entry(topic) or self._held_by_fences(topic) is not None

    def has_entry(self, topic: str) -> bool:
        return topic in self._by_name or any(entry.matches(topic) for entry in self._by_pattern)

    def _work_out(self, topic: str) -> TopicPolicy | NoPolicy | None:
        if exact := self._by_name.get(topic):
            return exact.policy if exact.policy.enabled else None
        matching = [entry for entry in self._by_pattern if entry.matches(topic)]
        if any(entry.switches_off for entry in matching):
            return None
        if (held := self._held_by_fences(topic)) is not None:
            return held
        policies = [entry.policy for entry in matching]
        if not any(policy.enabled for policy in policies):
            return None
        first, *others = policies
        if not others:
            return first
        sources = tuple(entry.source for entry in matching)
        owners = sorted({policy.owner for policy in policies if policy.owner})
        owner = listed(owners) if owners else None  # all who are to be asked
        if any(policy != first for policy in others):
            is_trial = all(policy.dry_run for policy in policies)
            return PolicyConflict(sources, owner, first.fence, is_trial)
        return replace(first, sources=sources, owner=owner)

    def _held_by_fences(self, topic: str) -> NoPolicy | None:
        """Why nobody knows how a topic in a fence is to be treated."""
        around = self.fences.around(topic)
        if len(around) > 1:
            fences = tuple(f"{fence.place} ({fence.file})" for fence in around)
            return PolicyConflict(fences, is_of_fences=True)
        for file in self.unreadable:
            if around and around[0].file == file.name:
                return PolicyUnreadable(file.name, file.problem, file.owner or None)
        return None


def work_out_policies(
    defaults: TopicRules,
    topics: Iterable[TopicEntry],
    files: Iterable[PolicyFile | UnreadableFile] = (),
    fences: Fences = NO_FENCES,
    readers_in_force: Mapping[str, object] = MappingProxyType({}),
) -> Policies:
    """Raises ConfigError where entries contradict each other, themselves or a fence. In a fenced
    file that makes the file unreadable. Of two files that name different readers alike the one that
    was there first is right: ``readers_in_force`` (as `Policies.readers`), or else the one without
    a fence, which can't be held alone, and then the first by name."""
    every_topic = refined(TopicPolicy(), defaults)
    of_main = ("defaults", defaults)
    _refuse_namesakes(*of_main)
    entries = list(_entries(every_topic, [of_main], topics, fences))
    by_name = _by_name(entries, {})
    _refuse_namesakes_of_queries(entries, ())
    names: list[str] = []
    unreadable: list[UnreadableFile] = []
    errors: list[ConfigError] = []
    worked_out: list[tuple[PolicyFile, list[PolicyEntry]]] = []

    def refuse(file: PolicyFile, error: ConfigError) -> None:
        if fences.of(file.name) is None:
            # It may be the main file's defaults that contradict an entry.
            is_of_main = error.file is None
            errors.append(error if is_of_main else error.in_file(file.name, file.owner))
        else:
            rules = (file.defaults, *file.topics)
            named = (
                entry_rules.groups.external or () for entry_rules in rules if entry_rules.groups
            )
            queries = _queries(chain.from_iterable(named))
            unreadable.append(UnreadableFile.because_of(error, file.name, file.owner, queries))

    def turn(worked: tuple[PolicyFile, list[PolicyEntry]]) -> tuple[bool, bool]:
        file, of_file = worked
        is_newcomer = any(
            readers_in_force.get(name, checkpoint) != checkpoint
            for name, checkpoint in _readers(of_file).items()
        )
        return is_newcomer, fences.of(file.name) is not None

    for file in files:
        names.append(file.name)
        if isinstance(file, UnreadableFile):
            unreadable.append(file)
            continue
        try:
            worked_out.append((file, _of_file(every_topic, of_main, file, fences)))
        except ConfigError as error:
            refuse(file, error)
    taken: dict[str, list[PolicyEntry]] = {}
    earlier = list(entries)
    for file, of_file in sorted(worked_out, key=turn):
        try:
            _refuse_namesakes_of_queries(of_file, earlier)
            by_name |= _by_name(of_file, by_name)  # last: a file that is refused leaves no entry
        except ConfigError as error:
            refuse(file, error)
        else:
            taken[file.name] = of_file
            earlier += of_file
    if errors:
        raise together([*errors, *(file.error for file in unreadable)])
    entries += (entry for name in names for entry in taken.get(name, ()))
    return Policies(tuple(entries), tuple(names), fences, tuple(unreadable))


def _queries(readers: Iterable[ExternalReader]) -> Iterator[ExternalReader]:
    return (reader for reader in readers if reader.spark_checkpoint is not None)


def _readers(entries: Iterable[PolicyEntry]) -> dict[str, object]:
    """Each external reader of enabled topics with its checkpoint; None: it is no Spark query."""
    return {
        reader.name: reader.spark_checkpoint
        for entry in entries
        if entry.policy.enabled
        for reader in entry.policy.external_readers
    }


def _of_file(
    every_topic: TopicPolicy, of_main: _Rules, file: PolicyFile, fences: Fences
) -> list[PolicyEntry]:
    defaults = f"{file.name}{FILE_END}defaults"
    _refuse_namesakes(defaults, file.defaults)
    of_file = replace(refined(every_topic, file.defaults), owner=file.owner)
    if fence := fences.of(file.name):
        of_file = replace(of_file, fence=file.name)
        fence.refuse_forbidden(file.defaults, defaults)
    rules = [of_main, (defaults, file.defaults)]
    return list(_entries(of_file, rules, file.topics, fences, file.name))


_Rules: TypeAlias = tuple[str, TopicRules]
"""Rules, behind the place where they stand: ``defaults``, or
``policies.d/payments.yaml: topics[2]``."""


def _entries(
    every_topic: TopicPolicy,
    defaults: list[_Rules],
    topics: Iterable[TopicEntry],
    fences: Fences,
    file: str = "",
) -> Iterator[PolicyEntry]:
    """``defaults``: those of the main file, and of the entry's own file where that is another."""
    fence = fences.of(file)
    for index, entry in enumerate(topics):
        at = f"topics[{index}]"
        source = f"{file}{FILE_END}{at}" if file else at
        rules = [*defaults, (source, entry)]
        _refuse_contradiction(rules)
        _refuse_namesakes(source, entry)
        policy = refined(every_topic, entry)
        _refuse_longer_pressure(policy, rules)
        _refuse_across_a_fence(entry, source, fences, file)
        if fence is not None:
            fence.refuse_forbidden(entry, source)
            fence.refuse_short(policy, rules[1:])
        policy = replace(
            policy, owner=every_topic.owner, fence=every_topic.fence, sources=(source,)
        )
        is_by_default = all(entry_rules.consumed_retention_ms is None for _, entry_rules in rules)
        yield PolicyEntry(entry, policy, fences, is_by_default)


def _refuse_across_a_fence(entry: TopicEntry, source: str, fences: Fences, file: str) -> None:
    """Refuses an exact name outside its file's fence, or inside another file's."""
    if entry.name is None or is_unknown(entry.name):
        return
    for fence in fences.every:
        if (entry.name in fence) != (fence.file == file):
            side = "inside" if fence.file == file else "outside"
            raise refusal(
                f"expected a topic {side} {fence}, not {entry.name}; take the entry out, or change "
                "the fence",
                f"{source}.name",
            )


def _seen_from(other: str, place: str) -> str:
    """The other place, as an error about ``place`` names it."""
    file, _, path = other.rpartition(FILE_END)
    if file == place.rpartition(FILE_END)[0]:
        return path
    return other if file else f"the main file's {path}"


def _refuse_longer_pressure(policy: TopicPolicy, rules: list[_Rules]) -> None:
    """Pressure lets records go sooner, never later. ``rules``: those of the entry come last."""
    pressure_ms, consumed_ms = policy.pressure_retention_ms, policy.consumed_retention_ms
    if pressure_ms is None or pressure_ms <= consumed_ms:
        return
    by, key = next(
        (by, key)
        for by, entry_rules in reversed(rules)
        if (key := entry_rules.key_of_retention(PRESSURE))
    )
    source = _seen_from(rules[-1][0], by)
    raise refusal(
        f"expected the consumed retention of {source} ({say_duration(consumed_ms) or 'none'}) or "
        f"less, not {say_duration(pressure_ms)}",
        f"{by}.{key}",
    )


def _by_name(
    entries: Iterable[PolicyEntry], earlier: Mapping[str, PolicyEntry]
) -> dict[str, PolicyEntry]:
    """The entries of exact names, beside the ``earlier`` ones."""
    by_name: dict[str, PolicyEntry] = {}
    for entry in entries:
        if (name := entry.entry.name) is None:
            continue
        if first := earlier.get(name) or by_name.get(name):
            other = _seen_from(first.source, entry.source)
            raise refusal(
                f"expected one entry for the topic {name}, but {other} is another one; keep one",
                f"{entry.source}.name",
            )
        by_name[name] = entry
    return by_name


def _refuse_namesakes(source: str, rules: TopicRules) -> None:
    """Two external readers of one name would count as one."""
    readers = (rules.groups or GroupRules()).external or ()
    names = [reader.name for reader in readers]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise refusal(
                "another external reader here has this name; give each its own",
                f"{source}.groups.external[{at}].name",
            )


def _refuse_namesakes_of_queries(
    entries: Iterable[PolicyEntry], earlier: Iterable[PolicyEntry]
) -> None:
    """A Spark query counts on each topic that its checkpoint names, and is remembered by its name:
    another reader of that name, on whatever topic, would count in its place."""
    checkpoints: dict[str, tuple[object, PolicyEntry]] = {}
    for entry in (*earlier, *entries):
        readers = entry.policy.external_readers if entry.policy.enabled else ()
        for reader in readers:
            if is_unknown((reader.name, reader.spark_checkpoint)):
                continue
            checkpoint, first = checkpoints.setdefault(
                reader.name, (reader.spark_checkpoint, entry)
            )
            if checkpoint != reader.spark_checkpoint:
                other = _seen_from(first.source, entry.source)
                raise refusal(
                    f"expected one reader called {reader.name}, but {other} has another one, and "
                    "one of them is a Spark query; give each its own name",
                    f"{entry.source}.groups.external",
                )


def _refuse_contradiction(rules: list[_Rules]) -> None:
    """Refuses a group that is excluded, and also required or declared, by the rules of one entry.
    The entry's own rules win over those that it refines."""

    def said(setting: str) -> tuple[str, Any]:
        """The last word on a setting of ``groups``, and who says it."""
        for by, entry_rules in reversed(rules):
            value = getattr(entry_rules.groups or GroupRules(), setting)
            if value is not None:
                return by, value
        return "defaults", ()

    excluded_by, excluded = said("exclude")
    only_by, only = said("only")

    def refuse_excluded(group: str, what: str, place: str) -> None:
        if is_unknown(group):
            return
        source = _seen_from(rules[-1][0], place)
        if only and not any(regex.fullmatch(group) for regex in only):
            raise refusal(
                f"expected {what} that counts for {source}, but "
                f"{_seen_from(only_by, place)}.groups.only has no "
                "pattern that matches this one; change one of the two",
                place,
            )
        for index, regex in enumerate(excluded):
            if regex.fullmatch(group):
                raise refusal(
                    f"expected {what} that counts for {source}, but "
                    f"{_seen_from(excluded_by, place)}.groups.exclude[{index}] excludes this one; "
                    "change one of the two",
                    place,
                )

    by, required = said("required")
    for at, group in enumerate(required):
        refuse_excluded(group, "a group", f"{by}.groups.required[{at}]")
    by, external = said("external")
    for at, reader in enumerate(external):
        refuse_excluded(reader.name, "an external reader", f"{by}.groups.external[{at}].name")
