"""What the past can't tell of a tried policy: by owner, with the lines that put it on trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from retentiond.cli.past.options import MOST_SHOWN
from retentiond.fields import TEXT, TEXTS, described, figure, rows_of, said
from retentiond.formatting import say_about, say_duration, say_name, say_names

if TYPE_CHECKING:
    from retentiond.cli.output.printing import Printer
    from retentiond.config.policy import PolicyEntry
    from retentiond.history.ask.missed import Missed
    from retentiond.history.ask.question import TriedPolicy
    from retentiond.history.ask.simulate import SimulatedTopic, Simulation

NO_SUCH_TOPIC = (
    "the history has no such topic at that time, so nobody can say what a reader would have missed "
    "there; a trial (dry_run) records it"
)

MOST_NAMED = 8


@described
class Trial:
    topic: str = said(TEXT, "the topic")
    owner: str | None = said(TEXT, "who is asked about it; null: the main file does")


@described
class Doubt:
    """Of which topic or entry the past can't tell, and why.

    ``topic``: how a sentence calls it. ``is_judged``: for some time, but for too short a one.
    ``file``: where its owner's entries stand. ``lines``: YAML for that file's topics, which puts it
    on trial; empty: --set gave the policy.
    """

    entry: str = said(TEXT, "the topic, or the entry's pattern")
    owner: str | None = said(TEXT, "who is asked about it; null: the main file does")
    why: str = said(TEXT, "why the past can't tell")
    topic: str
    is_judged: bool = False
    file: str = ""
    lines: str = ""


@described
class DoubtsOfOwner:
    owner: str | None = said(TEXT, "who is asked about them; null: the main file does")
    file: str | None = said(TEXT, "where the entries stand; null: in the main file")
    doubts: tuple[Doubt, ...]

    @figure(TEXTS, "the topics and patterns")
    def entries(self) -> list[str]:
        return [doubt.entry for doubt in self.doubts]

    @figure(TEXT, "the lines that put them on trial")
    def trial(self) -> str:
        return "".join(doubt.lines for doubt in self.doubts)


@described
class Doubts:
    """``doubts``: sorted by owner and file."""

    doubts: Sequence[Doubt] = ()

    @figure(rows_of(Doubt), "of what the past tells nothing")
    def not_judged(self) -> list[Doubt]:
        return [doubt for doubt in self.doubts if not doubt.is_judged]

    @figure(rows_of(DoubtsOfOwner), "what the past can't tell, by owner", name="doubts")
    def by_owner(self) -> list[DoubtsOfOwner]:
        in_file = groupby(self.doubts, lambda doubt: (doubt.owner, doubt.file or None))
        return [DoubtsOfOwner(*at, tuple(doubts)) for at, doubts in in_file]

    trials: Sequence[Trial] = said(rows_of(Trial), "topics on trial: they never count", default=())
    least_ms: int = 0

    def shut(self, missed: Iterable[Missed]) -> bool:
        """Whether the gate stays shut: for a doubt, or for what a reader would have missed."""
        on_trial = {trial.topic for trial in self.trials}
        return bool(self.doubts) or any(loss.topic not in on_trial for loss in missed)


def find_doubts(
    tried: TriedPolicy,
    simulation: Simulation,
    entries: Iterable[PolicyEntry],
    is_asked: Callable[[str], bool],
    least_ms: int,
) -> Doubts:
    """``entries``: those of which the past has nothing. ``is_asked``: about a topic."""
    on_trial = _trials(tried, simulation.recorded, is_asked)
    left_out = {trial.topic for trial in on_trial}
    doubts = [
        Doubt(
            entry.about[0],
            entry.policy.owner,
            NO_SUCH_TOPIC,
            entry.topics,
            file=entry.file,
            lines=_line_of(entry),
        )
        for entry in entries
        if not entry.policy.dry_run
    ]
    for topic in simulation.topics:
        is_short = topic.judged_ms < least_ms and not topic.whole_life
        is_doubtful = not topic.judged_ms or is_short
        if topic.retention_ms is not None and topic.topic not in left_out and is_doubtful:
            doubts.append(_of_topic(tried, topic, least_ms))
    doubts.sort(key=lambda doubt: (doubt.owner or "", doubt.file))
    return Doubts(doubts, on_trial, least_ms)


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
        entry.policy.owner if entry else None,
        _too_short(topic, least_ms)
        if topic.judged_ms
        else never_judged(topic.observed_ms, _tried(topic)),
        topic.topic,
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


def never_judged(observed_ms: int, retention: str) -> str:
    """Why the past tells nothing. ``retention``: how a sentence calls it; empty: it is 0."""
    observed = f"it was observed for {say_about(observed_ms)} without gaps"
    if not retention:
        return observed
    return f"{observed}, which is no longer than {retention}, so nothing could have been deleted"


def _tried(topic: SimulatedTopic) -> str:
    if not topic.retention_ms:
        return ""
    return f"the retention that is tried ({say_duration(topic.retention_ms)})"


def _too_short(topic: SimulatedTopic, least_ms: int) -> str:
    judged = ""
    if topic.judged_ms < topic.observed_ms:
        judged = f": less the retention that is tried, {say_about(topic.judged_ms)}"
    return (
        f"for {say_about(topic.observed_ms)} without gaps{judged}, which is less than "
        f"{say_duration(least_ms)}"
    )


def _trials(
    tried: TriedPolicy, recorded: Iterable[str], is_asked: Callable[[str], bool]
) -> tuple[Trial, ...]:
    """The topics that the tried policy has on trial: those of the past, and those that it names."""
    from retentiond.config import TopicPolicy

    on_trial = []
    for topic in sorted({*recorded, *tried.config.exact_names}):
        policy = tried.policy_for(topic) if is_asked(topic) else None
        if isinstance(policy, TopicPolicy) and policy.dry_run:
            on_trial.append(Trial(topic, policy.owner))
    return tuple(on_trial)


def say_doubts(printer: Printer, topics: Iterable[SimulatedTopic], doubts: Doubts) -> None:
    """``topics``: those that were judged."""
    for of_owner in doubts.by_owner:
        owner = f" (owner {say_name(of_owner.owner)})" if of_owner.owner else ""
        for doubt in of_owner.doubts[:MOST_SHOWN]:
            if doubt.is_judged:
                printer.say(f"observed too short: {doubt.topic}, {doubt.why}")
            else:
                printer.say(f"not judged: {doubt.topic}{owner}: {doubt.why}")
        if (more := len(of_owner.doubts) - MOST_SHOWN) > 0:
            printer.say(f"and {more} more: see --output json")
        elif of_owner.trial:
            where = f"{say_name(of_owner.file) if of_owner.file else 'the main file'}{owner}"
            printer.say(f"These lines under topics in {where} put them on trial, so they pass:")
            printer.say(of_owner.trial.rstrip("\n"))
    if young := [topic.topic for topic in topics if topic.whole_life]:
        printer.say(
            f"younger than {say_duration(doubts.least_ms)}, and judged for the whole life: "
            f"{say_names(young, MOST_NAMED)}"
        )
    if doubts.trials:
        named = say_names((trial.topic for trial in doubts.trials), MOST_NAMED)
        printer.say(f"on trial, so nothing that is said of them counts: {named}")
