"""How the explanation of a whole topic looks to people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from retentiond.cli.explain_lines import say, say_excluded, say_figure, say_report, say_standing
from retentiond.cli.show import STYLES
from retentiond.cli.table import Column, Kind, Row, print_table
from retentiond.explain.partition import Explanation
from retentiond.explain.topic import Alike, GroupOnTopic, by_group, by_reason, ranges
from retentiond.observe.report import CycleReport
from retentiond.wording.figures import say_bytes, say_count, say_many

REASONS = (
    Column("PARTITIONS", Kind.NAME),
    Column("VERDICT", Kind.WORD),
    Column("RECORDS", Kind.FIGURE),
    Column("BOUND BY", Kind.TEXT),
)

GROUPS_OF_TOPIC = (
    Column("GROUP", Kind.NAME),
    Column("KIND", Kind.WORD),
    Column("STATE", Kind.WORD),
    Column("LAG", Kind.FIGURE),
    Column("STANDS FOR", Kind.FIGURE),
    Column("KEEPS", Kind.FIGURE),
    Column("BINDS", Kind.TEXT),
)


def show_topic(console: Console, report: CycleReport, explanations: Sequence[Explanation]) -> None:
    first = explanations[0].row
    alike = by_reason(explanations)
    say(console, f"{first.topic}, {say_many(len(explanations), 'partition')}:")
    say(console)
    print_table(
        console,
        REASONS,
        map(_alike, alike),
    )
    say(console)
    now_ms = report.plan.planned_at_ms
    groups = by_group(explanations)
    if groups:
        print_table(console, GROUPS_OF_TOPIC, (_group_of_topic(each, now_ms) for each in groups))
    else:
        say(console, "No group counts for the topic.")
    say_excluded(console, explanations[0].excluded)
    for each in alike:
        example = each.explanations[0]
        which = f"partition {example.row.partition}" if len(explanations) > 1 else "Why"
        say(console)
        say(console, f"{each.verdict}: {each.reason}, {ranges(each.partitions)}")
        say(console, f"  {which}: {example.why}")
        say(console, f"  {example.remedy}")
    for sentence in dict.fromkeys(age for each in explanations for age in each.ages):
        say(console)
        say(console, f"Time stamps: {sentence}")
    say(console)
    say(console, _disk_of_topic(explanations))
    say(console, f"More about one partition: retentiond explain {first.topic}:{first.partition}")
    say_report(console, report)


def _alike(alike: Alike) -> Row:
    cells = [
        ranges(alike.partitions),
        f"{alike.verdict}: {alike.reason}",
        say_count(alike.records) if alike.records else "-",
        ", ".join(alike.groups) or "-",
    ]
    return Row(cells, STYLES[alike.verdict])


def _group_of_topic(group: GroupOnTopic, now_ms: int) -> Row:
    standing = group.standing
    binds = ranges(group.binds) or "-"
    if group.without_commit:
        binds += f"; no commit on {ranges(group.without_commit)}"
    cells = [
        standing.group_id,
        standing.kind.value,
        standing.state,
        say_figure(group.lag, "-"),
        say_standing(standing.stands_since_ms, now_ms),
        _kept(group),
        binds,
    ]
    return Row(cells, "bold" if group.binds else "")


def _kept(group: GroupOnTopic) -> str:
    """In bytes, as far as they are known."""
    if not group.kept_records:
        return "-"
    if group.kept_bytes is None:
        return say_many(group.kept_records, "record")
    return say_bytes(group.kept_bytes)


def _disk_of_topic(explanations: Sequence[Explanation]) -> str:
    sizes = [each.size_bytes for each in explanations]
    freed = [each.row.predicted_bytes for each in explanations if each.row.records]
    if None in sizes:
        return "On disk: how much all of it takes is not known."
    total = sum(size for size in sizes if size is not None)
    takes = f"On disk: all replicas take {say_bytes(total)}"
    if not freed:
        return f"{takes}. As it stands, nothing is deleted, and nothing is freed."
    if None in freed:
        return f"{takes}; what deletion would free is not known."
    frees = sum(each for each in freed if each is not None)
    return f"{takes}, of which deletion would free about {say_bytes(frees)} now."
