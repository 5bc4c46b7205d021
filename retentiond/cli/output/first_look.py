"""How a first look is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retentiond.cli.options import Output
from retentiond.cli.output.plan import say_more, say_problems
from retentiond.cli.output.printing import (
    FIGURE,
    TEXT,
    THE_REST,
    Column,
    Printer,
    columns_of,
    print_json,
)
from retentiond.decide.kept_records import KEPT_BY_AGE, KeptBecause
from retentiond.fields import FIRST_LOOK, FIRST_LOOK_OF_RECORDS
from retentiond.formatting import (
    printable,
    say_amount,
    say_bytes,
    say_count,
    say_duration,
    say_many,
    say_names,
    say_share,
)
from retentiond.model import Verdict
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.pressure import suggest_pressure
from retentiond.tell.first_look import FirstLook, first_look_document
from retentiond.tell.reasons import UNSEEN_READERS_NOTE, short
from retentiond.tell.report import CycleReport
from retentiond.tell.unseen_readers import UnseenReaders

MOST_CAUSES_SHOWN = 2
"""How many causes a cell has."""

MOST_OF_CLUSTER = 4
"""Keepers that the closing lines name."""


def show_first_look(look: FirstLook, output: Output) -> None:
    if output is Output.JSON:
        print_json(first_look_document(look))
        return
    answers, printer = look.report.answers, Printer()
    age = f"of {say_duration(look.retention_ms)}" if look.retention_ms else "of 0"
    where = f", on topics that no entry of {look.outside} is about" if look.outside else ""
    printer.say(f"What a consumed retention {age} would free{printable(where)}:\n")
    shown = printer.most(look.topics)
    printer.table(_columns(look), shown, _style)
    if more := say_more(look.topics[len(shown) :], answers):
        printer.say(f"{more} {THE_REST}")
    printer.say("")
    say_problems(printer, look.report)
    for line in _closing(look.report, look.retention_ms, look.unseen):
        printer.say(printable(line))


def _columns(look: FirstLook) -> Sequence[Column[TopicAnswer]]:
    """``OF ALL`` is the share of all logs in the cluster that the topic would free."""
    answers = look.report.answers
    keepers: Column[TopicAnswer] = Column(
        "WHO KEEPS THE REST",
        TEXT,
        lambda topic: "; ".join(_kept(topic, look.retention_ms, look.unseen)) or "-",
    )
    if answers.known_predicted_bytes is None:
        share: Column[TopicAnswer] = Column(
            "SHARE", FIGURE, lambda topic: _share(topic.records, topic.log_records)
        )
        return *columns_of(TopicAnswer, FIRST_LOOK_OF_RECORDS), share, keepers
    of_all: Column[TopicAnswer] = Column(
        "OF ALL", FIGURE, lambda topic: _share(topic.predicted_of_size, answers.log_bytes)
    )
    name, size, frees, *others = columns_of(TopicAnswer, FIRST_LOOK)
    return name, size, frees, of_all, *others, keepers


def _style(topic: TopicAnswer) -> str:
    if topic.records:
        return "green"
    return "yellow" if topic.verdicts[Verdict.HOLD] else "dim"


def _share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return "?"
    return say_share(part, whole) if part else "-"


def _kept(topic: TopicAnswer, retention_ms: int, unseen: UnseenReaders) -> Iterator[str]:
    if topic.system is not None:
        yield topic.system.short
    elif topic.topic in unseen.unlimited:
        yield "unlimited retention"
    for cause in topic.kept[:MOST_CAUSES_SHOWN]:
        is_all = cause.records == topic.log_records
        share = "" if is_all else f"{say_share(cause.records, topic.log_records)} "
        yield f"{share}{say_keeper(cause.keeper, retention_ms)}"
    if len(topic.kept) > MOST_CAUSES_SHOWN:
        yield f"{len(topic.kept) - MOST_CAUSES_SHOWN} more"
    if topic.unreadable:
        yield f"{say_many(topic.unreadable, 'partition')} unreadable"


def say_keeper(keeper: KeptBecause, retention_ms: int) -> str:
    if keeper == KEPT_BY_AGE and retention_ms:
        return f"younger than {say_duration(retention_ms)}"
    return short(*keeper)


def _closing(report: CycleReport, retention_ms: int, unseen: UnseenReaders) -> Iterator[str]:
    look = report.answers
    frees_bytes = look.known_predicted_bytes
    topics = sum(topic.records > 0 for topic in look.topics)
    records = (
        f"{say_count(look.records)} of {say_many(look.log_records, 'record')} "
        f"in {say_count(topics)} of {say_many(len(look.topics), 'topic')}"
    )
    cluster = f"Cluster {report.plan.cluster_id}"
    if frees_bytes is None:
        yield f"{cluster}: {records} would go. How many bytes that is could not be read."
    else:
        freed = f"{'' if look.is_bytes_known else 'at least '}{say_bytes(frees_bytes)}"
        share = ""
        if look.log_bytes is not None:
            share = f" of {say_bytes(look.log_bytes)} in logs "
            share += f"({say_share(frees_bytes, look.log_bytes)})"
        yield f"{cluster}: {freed}{share} would be freed, {records}."
    if frees_bytes == 0 and look.records:
        yield (
            "A broker frees whole segments and never the one that it writes to, so no disk space "
            "follows from these records yet."
        )
    kept = [
        f"{say_keeper(kept.keeper, retention_ms)} ({'' if kept.size_bytes is None else 'about '}"
        f"{say_amount(kept.records, kept.size_bytes)})"
        for kept in look.kept[:MOST_OF_CLUSTER]
    ]
    if kept:
        more = f"; {len(look.kept) - len(kept)} more" if len(look.kept) > len(kept) else ""
        yield f"Most of the rest stays because: {'; '.join(kept)}{more}."
    theirs = sum(topic.system is not None and topic.records > 0 for topic in look.topics)
    if theirs:
        belongs = "1 of these topics belongs" if theirs == 1 else f"{theirs} of these topics belong"
        yield f"By name {belongs} to another system; let that system delete there."
    if unlimited := sorted(unseen.unlimited):
        yield (
            f"{say_many(len(unlimited), 'topic')} ({say_names(unlimited, MOST_OF_CLUSTER)}) "
            f"{'has' if len(unlimited) == 1 else 'have'} unlimited retention, so something may "
            "read all that is in there again at each start. --write-config leaves such a topic "
            "disabled unless --include-unlimited is given."
        )
    if suggestion := suggest_pressure(report.disk):
        yield f"{suggestion} (docs/disk.md)."
    yield UNSEEN_READERS_NOTE
    for sentence in unseen.evidence:
        yield f"There may be some: {sentence}."
    if unseen.streams:
        named = say_names(sorted(unseen.streams), MOST_CAUSES_SHOWN)
        yield f"Topics that Kafka Streams ({named}) reads may be changelogs; Kafka doesn't tell."
    yield "Nothing was deleted."
