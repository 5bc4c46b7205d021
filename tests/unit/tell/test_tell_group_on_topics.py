"""A group's figures over all topics are the sums of its partitions."""

from __future__ import annotations

import random

from retentiond.model import GroupKind, Reason
from retentiond.tell.figures.group_answers import TopicReader, group_on_topics
from tests.support import scenes

HOLD = Reason.GROUP_WITHOUT_COMMIT


def test_its_figures_are_the_sums_over_the_partitions_that_it_binds() -> None:
    chance = random.Random(4)
    rows = [
        scenes.partition(
            f"topic-{number % 9}",
            number // 9,
            chance.choice([Reason.NOT_CONSUMED, HOLD, Reason.TOO_YOUNG]),
            young=chance.randrange(1_000),
            group=chance.choice(["billing", "search"]),
        )
        for number in range(90)
    ]
    commits = {f"topic-{number}": {0: 900 + number, 3: 5_000} for number in range(4)}
    readers = {
        topic: TopicReader("billing", GroupKind.CONSUMER, offsets, dict.fromkeys(offsets, 70 + at))
        for at, (topic, offsets) in enumerate(commits.items())
    }
    found = group_on_topics(scenes.report(rows).answers, "billing", readers)

    mine = [row for row in rows if row.binding_group == "billing"]
    kept = [row for row in mine if row.reason is not Reason.TOO_YOUNG]
    assert found.binds == len(mine)
    assert found.kept_records == sum(row.retention_offset or 0 for row in kept)
    assert found.kept.local == found.kept_records * scenes.RECORD_BYTES
    assert found.known_lag == sum(100 - number for number in range(4))
    assert found.keeps_since_ms == 70
    sizes = [answer.kept.local or 0 for answer in found.answers]
    assert sizes == sorted(sizes, reverse=True)
    assert {topic.topic for topic, _ in found.topics} == (
        {row.topic for row in mine} | set(commits)
    )


def test_a_group_that_reads_and_binds_nothing_has_no_topic() -> None:
    found = group_on_topics(scenes.plausible().answers, "nobody", {})
    assert (found.topics, found.binds, found.kept_records) == ((), 0, 0)
    assert (found.kept.local, found.known_lag, found.keeps_since_ms) == (0, None, None)
