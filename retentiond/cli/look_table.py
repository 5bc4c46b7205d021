"""How a first look is shown: a table by topic and a few lines about the cluster, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from rich.console import Console

from retentiond.cli.options import Output
from retentiond.cli.table import Column, Kind, Row, print_table, printer, say
from retentiond.config.duration import say_duration
from retentiond.cycle import Looked
from retentiond.explain.keepers import YOUTH, Keeper
from retentiond.look.document import look_document
from retentiond.look.summary import ClusterLook, Kept, TopicLook
from retentiond.model import Verdict
from retentiond.observe.report import CycleReport
from retentiond.wording.figures import say_bytes, say_count, say_many, say_share
from retentiond.wording.printable import printable
from retentiond.wording.reasons import short

MOST_TOPICS = 100
"""Of a table, which are those that free the most; JSON has all."""

MOST_KEEPERS = 2
"""Of a cell."""

MOST_OF_CLUSTER = 4
"""Keepers that the closing lines name."""

COLUMNS = (
    Column("TOPIC", Kind.NAME),
    Column("ON DISK", Kind.FIGURE),
    Column("FREES", Kind.FIGURE),
    Column("OF ALL", Kind.FIGURE),
    Column("RECORDS", Kind.FIGURE),
    Column("WHO KEEPS THE REST", Kind.TEXT),
)
"""``OF ALL`` is the share of all logs in the cluster that the topic would free."""

WITHOUT_BYTES = (
    Column("TOPIC", Kind.NAME),
    Column("RECORDS", Kind.FIGURE),
    Column("WOULD GO", Kind.FIGURE),
    Column("SHARE", Kind.FIGURE),
    Column("WHO KEEPS THE REST", Kind.TEXT),
)


def show_look(look: ClusterLook, looked: Looked, retention_ms: int, output: Output) -> None:
    """Prints it to stdout."""
    if output is Output.JSON:
        json.dump(look_document(look, looked.report, retention_ms), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = printer()
    age = f"of {say_duration(retention_ms)}" if retention_ms else "of 0"
    say(console, f"What a consumed retention {age} would free:\n")
    shown = look.topics[:MOST_TOPICS]
    has_bytes = look.freed_bytes is not None
    print_table(
        console,
        COLUMNS if has_bytes else WITHOUT_BYTES,
        (_row(topic, look, retention_ms) for topic in shown),
    )
    if len(shown) < len(look.topics):
        more = say_many(len(look.topics) - len(shown), "more topic")
        say(console, f"… and {more} that would free no more than these: see --output json.")
    say(console, "")
    _say_problems(console, looked.report)
    for line in _closing(look, looked, retention_ms):
        say(console, printable(line))


def _say_problems(console: Console, report: CycleReport) -> None:
    for problem in report.plan.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")


def _row(topic: TopicLook, look: ClusterLook, retention_ms: int) -> Row:
    kept = "; ".join(_kept(topic, retention_ms)) or "-"
    if look.freed_bytes is None:
        cells = [
            topic.topic,
            "?" if topic.unread == len(topic.rows) else say_count(topic.records),
            _if_any(topic.freed_records, say_count(topic.freed_records)),
            _if_any(topic.freed_records, say_share(topic.freed_records, topic.records)),
        ]
    else:
        records = _if_any(topic.freed_records, say_count(topic.freed_records))
        cells = [topic.topic, *_bytes(topic, look.disk.total), records]
    return Row([*cells, kept], _style(topic))


def _bytes(topic: TopicLook, all_logs: int | None) -> list[str]:
    """ON DISK, FREES, OF ALL."""
    size, freed = topic.size_bytes, topic.freed_bytes
    return [
        "?" if size is None else say_bytes(size),
        "?" if freed is None else _if_any(freed, say_bytes(freed)),
        "?" if freed is None or all_logs is None else _if_any(freed, say_share(freed, all_logs)),
    ]


def _if_any(figure: int, said: str) -> str:
    return said if figure else "-"


def _style(topic: TopicLook) -> str:
    if topic.freed_records:
        return "green"
    held = any(row.verdict is Verdict.HOLD for row in topic.rows)
    return "yellow" if held else "dim"


def _kept(topic: TopicLook, retention_ms: int) -> Iterator[str]:
    if topic.owner is not None:
        yield topic.owner.short
    for each in topic.kept[:MOST_KEEPERS]:
        is_all = each.records == topic.records
        share = "" if is_all else f"{say_share(each.records, topic.records)} "
        yield f"{share}{say_keeper(each.keeper, retention_ms)}"
    if len(topic.kept) > MOST_KEEPERS:
        yield f"{len(topic.kept) - MOST_KEEPERS} more"
    if topic.unread:
        yield f"{say_many(topic.unread, 'partition')} unread"


def say_keeper(keeper: Keeper, retention_ms: int) -> str:
    if keeper == YOUTH and retention_ms:
        return f"younger than {say_duration(retention_ms)}"
    return short(*keeper)


def _closing(look: ClusterLook, looked: Looked, retention_ms: int) -> Iterator[str]:
    topics = sum(topic.freed_records > 0 for topic in look.topics)
    records = (
        f"{say_count(look.freed_records)} of {say_many(look.records, 'record')} "
        f"in {say_count(topics)} of {say_many(len(look.topics), 'topic')}"
    )
    cluster = f"Cluster {looked.snapshot.cluster_id}"
    if look.freed_bytes is None:
        yield f"{cluster}: {records} would go. How many bytes that is could not be read."
    else:
        freed = f"{'' if look.is_bytes_known else 'at least '}{say_bytes(look.freed_bytes)}"
        yield f"{cluster}: {freed}{_of_disk(look)} would be freed, {records}."
    if look.freed_bytes == 0 and look.freed_records:
        yield (
            "A broker frees whole segments and never the one that it writes to, so no disk space "
            "follows from these records yet."
        )
    kept = [
        f"{say_keeper(each.keeper, retention_ms)} ({_amount(each)})"
        for each in look.kept[:MOST_OF_CLUSTER]
    ]
    if kept:
        more = f"; {len(look.kept) - len(kept)} more" if len(look.kept) > len(kept) else ""
        yield f"Most of the rest stays because: {'; '.join(kept)}{more}."
    theirs = sum(topic.owner is not None and topic.freed_records > 0 for topic in look.topics)
    if theirs:
        belongs = "1 of these topics belongs" if theirs == 1 else f"{theirs} of these topics belong"
        yield f"By name {belongs} to another system, which had better delete there itself."
    yield "Nothing was deleted."


def _of_disk(look: ClusterLook) -> str:
    if look.disk.total is None or look.freed_bytes is None:
        return ""
    share = say_share(look.freed_bytes, look.disk.total)
    return f" of {say_bytes(look.disk.total)} in logs ({share})"


def _amount(kept: Kept) -> str:
    if kept.size_bytes is None:
        return say_many(kept.records, "record")
    return f"about {say_bytes(kept.size_bytes)}"
