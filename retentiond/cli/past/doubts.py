"""What the past can't tell of a tried policy: by owner, with the lines that put it on trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from retentiond.cli.past.options import MOST_SHOWN
from retentiond.formatting import say_about, say_duration, say_name, say_names

if TYPE_CHECKING:
    from retentiond.cli.output.printing import Printer
    from retentiond.config.policy import PolicyEntry
    from retentiond.history.ask.missed import Missed
    from retentiond.history.ask.question import TriedPolicy
    from retentiond.history.ask.simulate import SimulatedTopic

NO_SUCH_TOPIC = (
    "the history has no such topic at that time, so nobody can say what a reader would have missed "
    "there; a trial (dry_run) records it"
)

MOST_NAMED = 8


class Trial(NamedTuple):
    topic: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class Doubt:
    """Of which topic or entry the past can't tell, and why.

    ``entry``: its name, or a pattern. ``topic``: how a sentence calls it. ``is_judged``: for some
    time, but for too short a one. ``file``: where its owner's entries stand; empty: the main file.
    ``lines``: YAML for that file's topics, which puts it on trial; empty: --set gave the policy.
    """

    entry: str
    topic: str
    owner: str | None
    why: str
    is_judged: bool
    file: str
    lines: str


@dataclass(frozen=True, slots=True)
class Doubts:
    """``found``: sorted by owner and file. ``trials``: they never count."""

    found: Sequence[Doubt]
    trials: Sequence[Trial]
    least_ms: int

    def shut(self, missed: Iterable[Missed]) -> bool:
        """Whether the gate stays shut: for a doubt, or for what a reader would have missed."""
        on_trial = {trial.topic for trial in self.trials}
        return bool(self.found) or any(loss.topic not in on_trial for loss in missed)

    def document(self) -> dict[str, Any]:
        return {
            "not_judged": [
                {"entry": doubt.entry, "owner": doubt.owner, "why": doubt.why}
                for doubt in self.found
                if not doubt.is_judged
            ],
            "doubts": [
                {
                    "owner": owner,
                    "file": file or None,
                    "entries": [doubt.entry for doubt in doubts],
                    "trial": "".join(doubt.lines for doubt in doubts),
                }
                for owner, file, doubts in self._by_owner()
            ],
            "trials": [trial._asdict() for trial in self.trials],
        }

    def _by_owner(self) -> Iterable[tuple[str | None, str, list[Doubt]]]:
        for (owner, file), of_owner in groupby(self.found, lambda doubt: (doubt.owner, doubt.file)):
            yield owner, file, list(of_owner)

    def say(self, printer: Printer) -> None:
        for owner, file, doubts in self._by_owner():
            of = f" (owner {say_name(owner)})" if owner else ""
            for doubt in doubts[:MOST_SHOWN]:
                if doubt.is_judged:
                    printer.say(f"observed too short: {doubt.topic}, {doubt.why}")
                else:
                    printer.say(f"not judged: {doubt.topic}{of}: {doubt.why}")
            if len(doubts) > MOST_SHOWN:
                printer.say(f"and {len(doubts) - MOST_SHOWN} more: see --output json")
                continue
            where = f"{say_name(file) if file else 'the main file'}{of}"
            if lines := "".join(doubt.lines for doubt in doubts).rstrip("\n"):
                printer.say(f"These lines under topics in {where} put them on trial, so they pass:")
                printer.say(lines)


NO_DOUBTS = Doubts((), (), 0)


def find_doubts(
    tried: TriedPolicy,
    topics: Iterable[SimulatedTopic],
    entries: Iterable[PolicyEntry],
    on_trial: Sequence[Trial],
    least_ms: int,
) -> Doubts:
    """``topics``: those that were tried. ``entries``: those of which the past has nothing."""
    left_out = {trial.topic for trial in on_trial}
    found = [
        Doubt(
            entry.about[0],
            entry.topics,
            entry.policy.owner,
            NO_SUCH_TOPIC,
            is_judged=False,
            file=entry.file,
            lines=_line_of(entry),
        )
        for entry in entries
        if not entry.policy.dry_run
    ]
    for topic in topics:
        is_short = topic.judged_ms < least_ms and not topic.whole_life
        is_doubtful = not topic.judged_ms or is_short
        if topic.retention_ms is not None and topic.topic not in left_out and is_doubtful:
            found.append(_of_topic(tried, topic, least_ms))
    found.sort(key=lambda doubt: (doubt.owner or "", doubt.file))
    return Doubts(found, on_trial, least_ms)


def _of_topic(tried: TriedPolicy, topic: SimulatedTopic, least_ms: int) -> Doubt:
    sources = getattr(tried.policy_for(topic.topic), "sources", ())
    entry = next((entry for entry in tried.config.entries if entry.source in sources), None)
    if entry is None:  # a setting of --set
        lines = ""
    elif not entry.about[1]:
        lines = _line_of(entry)
    else:
        from retentiond.config.document import dumped
        from retentiond.config.settings import entry_document

        lines = dumped([entry_document(topic.topic, entry.policy, entry.entry) | {"dry_run": True}])
    return Doubt(
        topic.topic,
        topic.topic,
        entry.policy.owner if entry else None,
        _too_short(topic, least_ms)
        if topic.judged_ms
        else never_judged(topic.observed_ms, topic.retention_ms or 0, "tried"),
        is_judged=topic.judged_ms > 0,
        file=entry.file if entry else "",
        lines=lines,
    )


def _line_of(entry: PolicyEntry) -> str:
    """For an entry that stays as it is otherwise."""
    from retentiond.config.document import dumped

    name, is_pattern = entry.about
    lines = dumped([{"pattern" if is_pattern else "name": name, "dry_run": True}])
    return f"# add dry_run to {entry.source.rpartition(' ')[2]}, which stays otherwise:\n{lines}"


def never_judged(observed_ms: int, retention_ms: int, which: str) -> str:
    """Why the past tells nothing. ``which``: the retention that is tried or recommended."""
    observed = say_about(observed_ms)
    if not retention_ms:
        return f"it was observed for {observed} without gaps"
    return (
        f"it was observed for {observed} without gaps, which is no longer than the retention "
        f"that is {which} ({say_duration(retention_ms)}), so nothing could have been deleted"
    )


def _too_short(topic: SimulatedTopic, least_ms: int) -> str:
    judged = ""
    if topic.judged_ms < topic.observed_ms:
        judged = f": less the retention that is tried, {say_about(topic.judged_ms)}"
    return (
        f"for {say_about(topic.observed_ms)} without gaps{judged}, which is less than "
        f"{say_duration(least_ms)}"
    )


def trials(
    tried: TriedPolicy, recorded: Iterable[str], is_asked: Callable[[str], bool]
) -> tuple[Trial, ...]:
    """The topics that the tried policy has on trial: those of the past, and those that it names."""
    from retentiond.config import TopicPolicy

    found = []
    for topic in sorted({*recorded, *tried.config.exact_names}):
        policy = tried.policy_for(topic) if is_asked(topic) else None
        if isinstance(policy, TopicPolicy) and policy.dry_run:
            found.append(Trial(topic, policy.owner))
    return tuple(found)


def say_doubts(printer: Printer, topics: Iterable[SimulatedTopic], doubts: Doubts) -> None:
    doubts.say(printer)
    if young := [topic.topic for topic in topics if topic.whole_life]:
        printer.say(
            f"younger than {say_duration(doubts.least_ms)}, and judged for the whole life: "
            f"{say_names(young, MOST_NAMED)}"
        )
    if doubts.trials:
        named = say_names((trial.topic for trial in doubts.trials), MOST_NAMED)
        printer.say(f"on trial, so nothing that is said of them counts: {named}")
