"""What can happen to the cluster, drawn by Hypothesis; `hand` does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from retentiond.kafka.port import OffsetBound
from retentiond.model import GroupKind
from tests.fakes import HowDeletionEnds
from tests.property.model.hand import ENABLED, GROUPS, TOPICS, Hand
from tests.property.model.rules import HOUR_MS


@dataclass(frozen=True)
class Change:
    """A method of `Hand` and what it is called with."""

    name: str
    args: tuple[Any, ...] = ()

    def of(self, hand: Hand) -> None:
        getattr(hand, self.name)(*self.args)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.args))})"


def _change(name: str, *args: st.SearchStrategy[Any]) -> st.SearchStrategy[Change]:
    return st.builds(Change, st.just(name), st.tuples(*args))


topics = st.sampled_from(ENABLED)
every_topic = st.sampled_from(TOPICS)
partitions = st.integers(0, 1)
groups = st.sampled_from(GROUPS)
brokers = st.integers(1, 3)
few = st.integers(1, 4)

of_records = st.one_of(
    _change("produce", topics, partitions, few, st.sampled_from([3 * HOUR_MS, 61_000, 0])),
    _change("produce", topics, partitions, few, st.sampled_from([3 * HOUR_MS, 30_000, -HOUR_MS])),
    _change("produce", st.just("bystander"), st.just(0), few),
    _change("begin", topics, partitions),
    _change("end"),
    _change("advance", st.sampled_from([1_000, 31_000, 61_000, HOUR_MS, 3 * HOUR_MS])),
)

of_commits = st.one_of(
    _change("catch_up", topics, st.sampled_from([0, 0, 1])),
    _change("catch_up", topics, st.just(0)),
    _change("commit", groups, every_topic, partitions, st.integers(0, 4)),
    _change("rewind", groups, topics, few),
)

of_groups = st.one_of(
    _change(
        "join",
        groups,
        st.sampled_from(GroupKind).filter(lambda kind: kind is not GroupKind.EXTERNAL),
        st.sets(every_topic, min_size=1),
        st.booleans(),
    ),
    _change("leave", groups),
    _change("delete_group", groups),
    _change("expire_commits", groups, topics),
    _change("commit", groups, topics, partitions, st.just(-2)),  # beyond the end
    _change("spoil", groups, topics, partitions),
    _change("rebalance", groups, st.booleans()),
)

of_topics = st.one_of(
    _change("recreate", topics, st.integers(1, 2), st.booleans()),
    _change("delete_topic", topics),
    _change("add_partition", topics),
    _change(
        "configure",
        topics,
        st.just("cleanup.policy"),
        st.sampled_from(["delete", "compact", "compact,delete"]),
    ),
    _change("configure", topics, st.just("retention.ms"), st.sampled_from(["-1", "60000"])),
    _change("expire_records"),
    _change("truncate", topics, partitions, few),
    _change("set_back", topics, partitions, few),
)

of_brokers = st.one_of(
    _change("fail_group", st.sampled_from(["commits", "members"]), groups),
    _change("fail_topic", st.sampled_from(["describe_topics", "topic_configs"]), topics),
    _change("fail_offsets", topics, partitions, st.sampled_from([None, *OffsetBound])),
    _change("end_next_deletion", topics, partitions, st.sampled_from(HowDeletionEnds)),
    _change("end_next_deletion", topics, partitions, st.sampled_from(HowDeletionEnds)),
    _change("thaw"),
    _change("move_leader", topics, partitions, brokers),
    _change("migrate", st.integers(0, 2), brokers, st.booleans()),
    _change("migrate", st.integers(0, 2), brokers, st.booleans()),
    _change("deny", groups),
    _change("hide_coordinators"),
    _change("stop_clock"),
    _change("kill_broker", brokers, st.booleans()),
    _change("skew", st.sampled_from([-HOUR_MS, HOUR_MS])),
    _change("heal"),
)

of_rare_states = st.one_of(
    _change("commit", groups, topics, partitions, st.just(-2)),  # beyond the end
    _change("rewind", groups, topics, st.just(9)),  # below the log start
    _change("begin_afresh", topics, partitions),
    _change("produce", topics, partitions, few),
)
"""What a log of which nearly all was read and deleted has to meet for a cycle to say so."""

any_change = st.one_of(of_records, of_commits, of_groups, of_topics, of_brokers)
