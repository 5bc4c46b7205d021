"""Which policies the record of the past can be asked about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.config import Config, TopicPolicy
from retentiond.config.values import Pattern
from retentiond.history.question import TopicQuestion, questions, tried_policy

IN_FORCE = TopicPolicy(enabled=True, consumed_retention_ms=60_000)

ONLY_BILLING = replace(IN_FORCE, only=(Pattern("billing"),))


def question(tried: TopicPolicy, in_force: TopicPolicy = IN_FORCE) -> TopicQuestion:
    (asked,) = questions(["orders"], {"orders": tried}.get, {"orders": in_force}.get)
    return asked


def test_a_policy_with_another_retention_is_known() -> None:
    asked = question(replace(IN_FORCE, consumed_retention_ms=0))
    assert (asked.has_other_groups, asked.is_known) == (False, True)


@pytest.mark.parametrize(
    "other",
    [
        ONLY_BILLING,
        replace(IN_FORCE, excluded=(Pattern("billing"),)),
        replace(IN_FORCE, required_groups=("billing",)),
        replace(IN_FORCE, min_groups=2),
    ],
)
def test_a_policy_by_which_other_groups_count_is_not(other: TopicPolicy) -> None:
    for asked in (question(other), question(IN_FORCE, other)):
        assert (asked.has_other_groups, asked.is_known) == (True, False)


def test_what_a_group_misses_is_a_loss_if_either_policy_counts_it() -> None:
    assert question(ONLY_BILLING).counts("search")
    assert not question(ONLY_BILLING, ONLY_BILLING).counts("search")
    assert question(ONLY_BILLING, ONLY_BILLING).counts("billing")


def test_only_can_be_tried_by_set() -> None:
    config = Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "fake:9092"},
            "topics": [{"name": "orders", "retention.commitoffset.enable": True}],
        }
    )
    tried = tried_policy(config, ["orders:groups.only=['bill.*']"]).policy_for("orders")
    assert isinstance(tried, TopicPolicy)
    assert tried.only_groups == "bill.*"
