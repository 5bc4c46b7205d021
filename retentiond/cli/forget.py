"""How groups are shown that are remembered or in the cluster, and how ``retentiond groups forget``
lets go of one, or of many that have vanished."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from retentiond.cli.options import confirm, duration_ms, load, matching
from retentiond.cli.output.printing import Printer, columns_of
from retentiond.errors import RetentiondError, StateError, UsageError
from retentiond.fields import COMMAND
from retentiond.formatting import say_many, say_name, say_names, say_reader
from retentiond.model import GroupKind
from retentiond.state.operator_actions import Action, action_now, record_action

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.memory.readers import ReaderName, RememberedReader
    from retentiond.memory.remembered import Remembered
    from retentiond.tell.figures.group_rows import GroupRow


def show_groups(printer: Printer, rows: Iterable[GroupRow]) -> None:
    from retentiond.tell.figures.group_rows import GroupRow

    columns = columns_of(GroupRow, COMMAND)
    printer.table(columns, rows, lambda row: "yellow" if row.vanished_since_ms else "")


def by_reader(remembered: Remembered) -> Mapping[ReaderName, Mapping[str, RememberedReader]]:
    readers: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        readers[at.reader][at.topic] = last
    return readers


MOST_PREVIEWED = 20
"""Groups that a preview shows; it counts the others."""


class NamedKind(StrEnum):
    """Which of two readers of one name is meant."""

    GROUP = "group"
    EXTERNAL = "external"


def forget_one(
    path: Path, group: str, topic: str | None, kind: NamedKind | None, yes: bool
) -> None:
    """Raises `UsageError` if it is not remembered, or two readers of that name are."""
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    config = load(path)
    state_dir = config.state_dir
    remembered = recall(state_dir)
    reader = _named(group, topic, kind, remembered)
    topics = sorted(
        at.topic for at in remembered.commits if at.reader == reader and topic in (None, at.topic)
    )
    who = _say(reader)
    if (required := _required(config, reader, topics)) is not None:
        raise UsageError(f"{who} is not forgotten, because its topics would stay held: {required}")
    on = f"{say_many(len(topics), 'topic')} ({', '.join(topics[:5])})"
    # the operator has named it: without a terminal that is enough
    confirm(f"Forget {who}, on {on}?", yes or not sys.stdin.isatty())
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        record_action(state_dir, _forgetting(reader, topics))
        with _withdrawn_unless_done(state_dir, {reader: topics}):
            # And on no other, where it was seen since.
            memory.forget(reader.group_id, topics, is_external=reader.is_external)
    Printer().say(f"{who[0].upper()}{who[1:]} is forgotten{_where(topic)}.")


def forget_vanished(
    path: Path,
    patterns: Sequence[str] | None,
    vanished_for: str | None,
    topic: str | None,
    kind: NamedKind | None,
    *,
    yes: bool,
) -> None:
    """Shows them, asks, and forgets those that are still absent then."""
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    if not patterns and vanished_for is None:
        raise UsageError("say which groups: GROUP, --pattern REGEX or --vanished-for DURATION")
    matches = matching(
        patterns, "--pattern", "give one that the whole id matches, such as 'preview-.*'"
    )
    least_ms = 0 if vanished_for is None else duration_ms(vanished_for, "--vanished-for", "30d")
    config = load(path)
    state_dir = config.state_dir
    remembered = recall(state_dir)
    meant = {
        reader: on
        for reader, on in by_reader(remembered).items()
        if matches(reader.group_id) and _is_of(kind, reader)
    }
    present = sorted({name.group_id for name, on in meant.items() if _absent_ms(on) is None})
    chosen = {
        reader: sorted(name for name in on if topic in (None, name))
        for reader, on in sorted(meant.items())
        if (absent_ms := _absent_ms(on)) is not None and absent_ms >= least_ms
    }
    chosen = {reader: topics for reader, topics in chosen.items() if topics}
    printer = Printer()
    for reader in list(chosen):
        if (required := _required(config, reader, chosen[reader])) is not None:
            del chosen[reader]
            printer.say(f"Not forgotten: {_say(reader)}, because {required}.")
    if present and patterns:
        printer.say(f"Not vanished, and so not forgotten: {say_names(present, 5)}.")
    if not chosen:
        raise UsageError(f"no group has vanished that is meant{_see(remembered)}")
    shown = list(chosen)[:MOST_PREVIEWED]
    from retentiond.tell.figures.group_rows import remembered_group

    rows = [remembered_group(reader.group_id, meant[reader]) for reader in shown]
    show_groups(printer, rows)
    if len(chosen) > len(shown):
        printer.say(f"… and {say_many(len(chosen) - len(shown), 'more group')}")
    where = _where(topic)
    confirm(f"Forget {say_many(len(chosen), 'vanished group')}{where}?", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        record_action(state_dir, *(_forgetting(*named) for named in chosen.items()))
        with _withdrawn_unless_done(state_dir, chosen):
            forgotten = memory.forget_vanished(chosen, least_ms)
        back = {reader: on for reader, on in chosen.items() if reader not in forgotten}
        _withdraw(state_dir, back)
    verb = "is" if len(forgotten) == 1 else "are"
    printer.say(f"{say_many(len(forgotten), 'group')} {verb} forgotten{where}.")
    if back:
        names = sorted({name.group_id for name in back})
        printer.say(f"Seen again meanwhile, and so not forgotten: {say_names(names, 5)}.")


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


@contextmanager
def _withdrawn_unless_done(
    state_dir: Path, readers: Mapping[ReaderName, Sequence[str]]
) -> Iterator[None]:
    """If the block fails, takes back what was recorded of readers that are remembered still: an
    error may come after its transaction."""
    from retentiond.state.groups_lookup import recall

    try:
        yield
    except RetentiondError:
        with suppress(StateError):  # the first error says what is wrong
            still = {(at.reader, at.topic) for at in recall(state_dir).commits}
            left = {
                reader: [on for on in topics if (reader, on) in still]
                for reader, topics in readers.items()
            }
            _withdraw(state_dir, {reader: topics for reader, topics in left.items() if topics})
        raise


def _is_of(kind: NamedKind | None, reader: ReaderName) -> bool:
    return kind is None or reader.is_external is (kind is NamedKind.EXTERNAL)


def _named(
    group: str, topic: str | None, kind: NamedKind | None, remembered: Remembered
) -> ReaderName:
    """The one reader that is meant, by its name or by `namesake_id`. Raises `UsageError`."""
    from retentiond.snapshot import namesake_id

    here = {
        at.reader
        for at in remembered.commits
        if topic in (None, at.topic) and _is_of(kind, at.reader)
    }
    named = {reader for reader in here if reader.group_id == group} or {
        reader
        for reader in here
        if namesake_id(reader.group_id, is_external=reader.is_external) == group
    }
    where = _where(topic)
    if not named:
        what = "external reader" if kind is NamedKind.EXTERNAL else "group"
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
