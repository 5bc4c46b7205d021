"""How far the configuration reaches on a cluster."""

from __future__ import annotations

from dataclasses import replace

from retentiond.tell.figures.coverage import Coverage, CoverageReader
from tests.support.builders.daemons import settings
from tests.support.builders.guard_readings import Reading

ON = {"retention.commitoffset.enable": True}
TOPICS = frozenset({"orders", "orders.eu", "clicks", "off.a", "__consumer_offsets"})


def test_topics_without_an_entry_entries_without_a_topic_and_weakened_topics_are_told() -> None:
    config = settings(
        topics=[
            {"name": "orders", **ON, "groups": {"only": ["billing"], "exclude": ["console-.*"]}},
            {"pattern": r"orders\..*", **ON, "allow_compacted": True, "groups_visible": "assumed"},
            {"name": "ordres", **ON},
            {"pattern": "clicks-.*", **ON},
            {"pattern": "off.*", "retention.commitoffset.enable": False},
            {"name": "nothing-to-switch-off", "retention.commitoffset.enable": False},
        ]
    )
    snapshot = replace(Reading().snapshot(), topics=(), visible_topics=TOPICS)
    reader = CoverageReader()
    found = reader.coverage(config, snapshot)
    assert found == Coverage(
        entries_without_topic={"": 2},
        unmanaged=frozenset({"clicks"}),
        weakened={
            ("", "only"): 1,
            ("", "exclude"): 1,
            ("", "allow_compacted"): 1,
            ("", "groups_visible"): 1,
        },
    )
    more = replace(snapshot, visible_topics=TOPICS | {"ordres", "views"})
    assert reader.coverage(config, snapshot) is found
    assert reader.coverage(config, more).unmanaged == {"clicks", "views"}
    assert reader.coverage(config, more).entries_without_topic == {"": 1}
