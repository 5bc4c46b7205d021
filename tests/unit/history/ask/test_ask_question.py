"""When the record of one policy tells what another would have done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from retentiond.config import ExternalReader, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.errors import ConfigError
from retentiond.history.ask.question import POLICY_COLUMNS, TopicQuestion, tried_policy
from tests.support.builders.gather_worlds import config, entry

IN_FORCE = TopicPolicy(enabled=True, consumed_retention_ms=1000)
READER = ExternalReader(name="etl", offsets="/etl.json")


def asked(tried: TopicPolicy | None, in_force: TopicPolicy | None = IN_FORCE) -> TopicQuestion:
    return TopicQuestion("orders", tried, in_force, conflict=False)


def with_readers(*readers: ExternalReader) -> dict[str, Any]:
    return {"external_readers": readers}


def reader_at(authorization: str) -> ExternalReader:
    place = {"name": "etl", "offsets": "https://lake.example/at"}
    return ExternalReader.model_validate({**place, "headers": {"Authorization": authorization}})


ELSEWHERE = READER.model_copy(update={"offsets": "/other.json"})
CARELESS: list[dict[str, Any]] = [{"allow_compacted": True}, {"assumes_visible_groups": True}]


@pytest.mark.parametrize(
    ("tried", "in_force", "is_known", "has_other_groups"),
    [
        ({"consumed_retention_ms": 5}, {}, True, False),
        # other groups are known by their commits
        ({"required_groups": ("billing",)}, {}, True, True),
        ({"excluded": (Pattern("etl"),)}, {}, True, True),
        ({"only": (Pattern("billing"),)}, {}, True, True),
        ({"min_groups": 2}, {}, True, True),
        # more care than there was is not known
        *(({}, careless, False, None) for careless in CARELESS),
        *((careless, {}, True, None) for careless in CARELESS),
        *((careless, careless, True, False) for careless in CARELESS),
        # nor is an external reader that nobody has read; one that is taken out counts no more
        (with_readers(READER), {}, False, None),
        (with_readers(READER), None, False, None),
        (with_readers(ELSEWHERE), with_readers(READER), False, None),
        (with_readers(READER), with_readers(READER), True, False),
        (with_readers(reader_at("one")), with_readers(reader_at("two")), True, None),
        ({}, with_readers(READER), True, True),
    ],
)
def test_what_the_record_of_one_policy_tells_of_another(
    tried: dict[str, Any],
    in_force: dict[str, Any] | None,
    is_known: bool,
    has_other_groups: bool | None,
) -> None:
    question = asked(
        replace(IN_FORCE, **tried), None if in_force is None else replace(IN_FORCE, **in_force)
    )
    assert question.is_known is is_known
    assert has_other_groups in (None, question.has_other_groups)


def test_a_reader_that_is_taken_out_is_dropped_and_not_one_with_another_login() -> None:
    first, second = (
        replace(IN_FORCE, external_readers=(reader_at(login),)) for login in ("one", "two")
    )
    assert asked(IN_FORCE, second).drops("etl")
    assert not asked(IN_FORCE, second).drops("billing")
    assert not asked(first, second).drops("etl")


@pytest.mark.parametrize(
    ("tried_ms", "in_force_ms", "longer"),
    [
        (None, None, False),
        (None, 5, True),
        (6, 5, True),
        (5, 5, False),
        (4, 5, False),
        (5, None, False),
    ],
)
def test_whether_it_waits_longer_for_groups_that_have_vanished(
    tried_ms: int | None, in_force_ms: int | None, longer: bool
) -> None:
    question = asked(
        replace(IN_FORCE, forget_vanished_after_ms=tried_ms),
        replace(IN_FORCE, forget_vanished_after_ms=in_force_ms),
    )

    assert question.waits_longer == longer
    assert question.has_other_groups == longer


def test_what_a_group_misses_is_a_loss_if_either_policy_counts_it() -> None:
    only_billing = replace(IN_FORCE, only=(Pattern("billing"),))

    assert asked(only_billing).counts("search")
    assert not asked(only_billing, only_billing).counts("search")
    assert asked(only_billing, only_billing).counts("billing")


def test_only_can_be_tried_by_set() -> None:
    mine = config(entry("orders"))
    tried = tried_policy(mine, ["orders:groups.only=['bill.*']"]).policy_for("orders")
    assert isinstance(tried, TopicPolicy)
    assert tried.only_groups == "bill.*"


PATTERNS = [
    {
        "pattern": "stage.*",
        "retention.commitoffset.enable": False,
        "retention.commitoffset.hours": 5,
        "groups": {"required": ["billing"]},
    },
    {"pattern": "stage-9", "retention.commitoffset.hours": 6},
]


def test_a_topic_that_is_switched_off_is_tried_with_the_rest_of_its_entry() -> None:
    tried = tried_policy(config(PATTERNS[0]), ["stage-1:retention.commitoffset.enable=true"])
    policy = tried.policy_for("stage-1")
    assert isinstance(policy, TopicPolicy)
    assert policy.consumed_retention_ms == 5 * 3_600_000
    assert policy.required_groups == ("billing",)


def test_a_topic_that_patterns_treat_differently_is_not_tried_by_a_guess() -> None:
    mine = config(*PATTERNS)
    assert tried_policy(mine, ["stage-1:retention.commitoffset.enable=true"])
    with pytest.raises(ConfigError, match="several patterns treat the topic differently"):
        tried_policy(mine, ["stage-9:retention.commitoffset.enable=true"])


def test_what_no_file_may_say_is_refused_in_set_too() -> None:
    mine = config(entry("orders", groups={"required": ["billing"]}))
    with pytest.raises(ConfigError, match="billing is required or declared, and does not count"):
        tried_policy(mine, ["orders:groups.exclude=['billing']"])


def test_many_groups_may_be_asked_for() -> None:
    question = asked(replace(IN_FORCE, min_groups=3_000_000_000))
    kind, value_of = POLICY_COLUMNS["min_groups"]
    assert pa.array([value_of(question)], kind).to_pylist() == [3_000_000_000]


def test_under_pressure_the_pressure_retention_is_tried_where_there_is_one() -> None:
    pressed = {"retention.commitoffset.pressure.minutes": 2}
    mine = config(entry("orders", **pressed), entry("views"))
    tried = replace(tried_policy(mine, ["clicks:retention.commitoffset.ms=9"]), under_pressure=True)

    def retention_ms(topic: str) -> int:
        policy = tried.policy_for(topic)
        assert isinstance(policy, TopicPolicy)
        return policy.consumed_retention_ms

    assert (retention_ms("orders"), retention_ms("views")) == (120_000, 3_600_000)
    sooner = tried_policy(mine, ["orders:retention.commitoffset.ms=9"]).policy_for("orders")
    assert isinstance(sooner, TopicPolicy)  # as a configuration may say it
    assert (sooner.consumed_retention_ms, sooner.pressure_retention_ms) == (9, 9)
    assert tried.policy_for("clicks") is None  # `--set` alone enables nothing
