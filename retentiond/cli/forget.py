"""How ``retentiond groups forget`` lets go of a group, or of many that have vanished."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from retentiond.cli.groups import by_reader, show_groups
from retentiond.cli.options import confirm, duration_ms, load, matching
from retentiond.cli.output.printing import Printer
from retentiond.config import Config
from retentiond.errors import RetentiondError, StateError, UsageError
from retentiond.formatting import say_many, say_name, say_names, say_reader, say_verb
from retentiond.memory.readers import ReaderName, RememberedReader
from retentiond.memory.remembered import Remembered
from retentiond.model import GroupKind
from retentiond.snapshot import namesake_id
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import Action, action_now, record_action
from retentiond.tell.figures.group_rows import remembered_group

MOST_PREVIEWED = 20
"""Groups that a preview shows; it counts the others."""


def forget_one(
    path: Path, group: str, topic: str | None, is_external: bool | None, yes: bool
) -> None:
    """``is_external``: which of two readers of that name is meant. Raises `UsageError` if it is not
    remembered, or if both are and nothing says which."""
    config = load(path)
    remembered = recall(config.state_dir)
    reader = _named(group, topic, is_external, remembered)
    topics = sorted(
        at.topic for at in remembered.commits if at.reader == reader and topic in (None, at.topic)
    )
    who = _say(reader)
    if (required := _required(config, reader, topics)) is not None:
        raise UsageError(f"{who} is not forgotten, because its topics would stay held: {required}")
    on = f"{say_many(len(topics), 'topic')} ({', '.join(topics[:5])})"
    # the operator has named it: without a terminal that is enough
    confirm(f"Forget {who}, on {on}?", yes or not sys.stdin.isatty())
    with _recorded(config.state_dir, {reader: topics}) as memory:
        # And on no other, where it was seen since.
        memory.forget(reader.group_id, topics, is_external=reader.is_external)
    Printer().say(f"{who[0].upper()}{who[1:]} is forgotten{_where(topic)}.")


def forget_vanished(
    path: Path,
    patterns: Sequence[str] | None,
    vanished_for: str | None,
    topic: str | None,
    is_external: bool | None,
    *,
    yes: bool,
) -> None:
    """Shows them, asks, and forgets those that are still absent then."""
    if not patterns and vanished_for is None:
        raise UsageError("say which groups: GROUP, --pattern REGEX or --vanished-for DURATION")
    matches = matching(
        patterns, "--pattern", "give one that the whole id matches, such as 'preview-.*'"
    )
    least_ms = 0 if vanished_for is None else duration_ms(vanished_for, "--vanished-for", "30d")
    config = load(path)
    remembered = recall(config.state_dir)
    meant = {
        reader: on
        for reader, on in sorted(by_reader(remembered).items())
        if matches(reader.group_id) and is_external in (None, reader.is_external)
    }
    absent_ms = {reader: _absent_ms(on) for reader, on in meant.items()}
    present = sorted({reader.group_id for reader, ms in absent_ms.items() if ms is None})
    printer = Printer()
    chosen: dict[ReaderName, list[str]] = {}
    for reader, ms in absent_ms.items():
        topics = sorted(name for name in meant[reader] if topic in (None, name))
        if ms is None or ms < least_ms or not topics:
            continue
        if (required := _required(config, reader, topics)) is not None:
            printer.say(f"Not forgotten: {_say(reader)}, because {required}.")
        else:
            chosen[reader] = topics
    if present and patterns:
        printer.say(f"Not vanished, and so not forgotten: {say_names(present, 5)}.")
    if not chosen:
        raise UsageError(f"no group has vanished that is meant{_see(remembered)}")
    shown = list(chosen)[:MOST_PREVIEWED]
    show_groups(printer, [remembered_group(reader.group_id, meant[reader]) for reader in shown])
    if len(chosen) > len(shown):
        printer.say(f"… and {say_many(len(chosen) - len(shown), 'more group')}")
    where = _where(topic)
    confirm(f"Forget {say_many(len(chosen), 'vanished group')}{where}?", yes)
    with _recorded(config.state_dir, chosen) as memory:
        forgotten = memory.forget_vanished(chosen, least_ms)
    back = {reader: on for reader, on in chosen.items() if reader not in forgotten}
    _withdraw(config.state_dir, back)
    are = say_verb(len(forgotten), "is", "are")
    printer.say(f"{say_many(len(forgotten), 'group')} {are} forgotten{where}.")
    if back:
        names = sorted({reader.group_id for reader in back})
        printer.say(f"Seen again meanwhile, and so not forgotten: {say_names(names, 5)}.")


@contextmanager
def _recorded(
    state_dir: Path, readers: Mapping[ReaderName, Sequence[str]]
) -> Iterator[GroupMemory]:
    """The memory, in which the block forgets these readers. That is recorded before, because what
    frees records never goes unrecorded. If the block fails, the record is taken back of readers
    that are remembered still: an error may come after its transaction."""
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        record_action(state_dir, *(_forgetting(*reader) for reader in readers.items()))
        try:
            yield memory
        except RetentiondError:
            with suppress(StateError):  # the first error says what is wrong
                still = {(at.reader, at.topic) for at in recall(state_dir).commits}
                left = {
                    reader: [on for on in topics if (reader, on) in still]
                    for reader, topics in readers.items()
                }
                _withdraw(state_dir, {reader: topics for reader, topics in left.items() if topics})
            raise


def _required(config: Config, reader: ReaderName, topics: Iterable[str]) -> str | None:
    return config.said_of_required(reader.group_id, topics, is_external=reader.is_external)


def _absent_ms(on: Mapping[str, RememberedReader]) -> int | None:
    """How long a group was observed to be gone wherever it is remembered; None: it is there."""
    if any(last.absent_since_ms is None for last in on.values()):
        return None
    return min(last.absent_ms for last in on.values())


def _say(reader: ReaderName) -> str:
    return say_reader(reader.group_id, GroupKind.EXTERNAL if reader.is_external else None)


def _forgetting(reader: ReaderName, topics: Sequence[str], action: str = "forget") -> Action:
    what = "external reader, " if reader.is_external else ""
    return action_now(action, reader.group_id, f"{what}on {', '.join(topics)}")


def _withdraw(state_dir: Path, readers: Mapping[ReaderName, Sequence[str]]) -> None:
    """Records that these were not forgotten after all."""
    if readers:
        actions = (_forgetting(*reader, "forget-withdrawn") for reader in readers.items())
        record_action(state_dir, *actions)


def _named(
    group: str, topic: str | None, is_external: bool | None, remembered: Remembered
) -> ReaderName:
    """The one reader that is meant, by its name or by `namesake_id`. Raises `UsageError`."""
    here = {
        at.reader
        for at in remembered.commits
        if topic in (None, at.topic) and is_external in (None, at.reader.is_external)
    }
    named = {reader for reader in here if reader.group_id == group} or {
        reader
        for reader in here
        if namesake_id(reader.group_id, is_external=reader.is_external) == group
    }
    where = _where(topic)
    if not named:
        what = "external reader" if is_external else "group"
        raise UsageError(f"no {what} {say_name(group)} is remembered{where}{_see(remembered)}")
    if len(named) > 1:
        raise UsageError(
            f"a group and an external reader called {say_name(group)} are remembered{where}, and "
            "each holds what it has not read: say which one with --kind group or --kind external"
        )
    return named.pop()


def _where(topic: str | None) -> str:
    return "" if topic is None else f" on topic {topic}"


def _see(remembered: Remembered) -> str:
    """Why none is remembered, or where to see who is."""
    return f": {remembered.lost}" if remembered.lost else "; see `retentiond groups`"
