"""The doctor reads part by part, and no part that fails keeps another from being checked."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.brokers import Brokers
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure
from retentiond.tools.doctor.examine import (
    examine,
    examine_cluster,
    read_cluster,
    with_short_timeouts,
)
from retentiond.tools.doctor.finding import (
    ExaminedCluster,
    Finding,
    Level,
    about,
    checked,
    first_names,
    value_or_failure,
)
from tests.support.builders.examined_clusters import DAY_MS, bad, broker, brokers, config
from tests.support.fakes import FakeCluster

LOST = Failure("KafkaConnectionError", "lost")

MINE = config({"name": "orders", "retention.commitoffset.hours": 1})

PARTS = tuple(name for name in ExaminedCluster.__dataclass_fields__ if name != "brokers")

ALL = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "DELETE"})


@pytest.fixture
def cluster() -> FakeCluster:
    """A sound one whose topic is read; what the port does not tell is healthy."""
    fake = FakeCluster()
    fake.create_topic("orders", config={"segment.ms": "3600000"})
    fake.produce("orders", count=10)
    fake.commit("readers", {("orders", 0): 5})
    fake.broker_config["offsets.retention.minutes"] = "10080"
    return fake


class Examined:
    """A fake cluster with what the tools ask besides."""

    def __init__(self, fake: FakeCluster) -> None:
        self._fake = fake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)

    def brokers(self) -> Brokers:
        return brokers(broker(1))

    def topic_rights(self, _names: object) -> dict[str, frozenset[str]]:
        return {"orders": ALL}


def looked_at(cluster: FakeCluster) -> ExaminedCluster:
    kafka: Any = Examined(cluster)
    return read_cluster(kafka, MINE, lambda: cluster.now_ms)


def test_a_healthy_cluster_has_nothing_but_ok(cluster: FakeCluster) -> None:
    found = list(examine_cluster(looked_at(cluster), MINE))
    assert bad(found) == []
    assert {"brokers", "groups", "readers", "segments", "clocks"} <= {e.subject for e in found}


def test_each_reading_that_fails_is_said_and_keeps_no_other_from_being_checked(
    cluster: FakeCluster,
) -> None:
    healthy = list(examine_cluster(looked_at(cluster), MINE))
    for part in PARTS:
        change: dict[str, Any] = {part: LOST}
        broken = replace(looked_at(cluster), **change)
        found = list(examine_cluster(broken, MINE))
        said = [each for each in found if "could not be checked" in each.sentence]
        assert said, part
        assert all(each.level is Level.WARNING for each in said)
        unaffected = {each.subject for each in healthy} - {each.subject for each in said}
        assert unaffected <= {each.subject for each in found} | {"dry_run"}, part


def test_a_port_that_raises_is_a_failure_in_its_place(cluster: FakeCluster) -> None:
    cluster.script.fail_next("cluster_time", KafkaUnavailable("broker 3 did not list its groups"))
    seen = looked_at(cluster)
    assert seen.clock_skew_ms == Failure("KafkaUnavailable", "broker 3 did not list its groups")
    assert not isinstance(seen.listing, Failure)


def test_a_bug_in_a_reading_or_a_check_is_said_and_raises_nothing() -> None:
    def bug(*_: object) -> list[Finding]:
        raise ZeroDivisionError("by zero")

    assert value_or_failure(bug) == Failure("ZeroDivisionError", "by zero; please report this")
    (found,) = checked("x", bug)
    assert found.level is Level.WARNING
    assert "ZeroDivisionError: by zero; please report this" in found.sentence


def test_a_file_of_another_user_is_no_bug(tmp_path: Path) -> None:
    def refused() -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    said = f"{tmp_path} may not be opened (Permission denied); let this user read and write it"
    assert value_or_failure(refused) == Failure("PermissionError", said)
    (finding,) = checked("state_dir", refused)
    assert said in finding.sentence


def test_a_check_and_a_reading_whose_value_is_missing_say_why_that_is() -> None:
    (found,) = checked("x", list, LOST)
    assert found.sentence == "could not be checked: KafkaConnectionError: lost"
    assert value_or_failure(list, LOST) == LOST
    (found,) = checked("x", list, replace(LOST, message="Connection lost."))
    assert found.sentence == "could not be checked: KafkaConnectionError: Connection lost"


def test_the_clocks_are_compared(cluster: FakeCluster) -> None:
    cluster.cluster_clock = cluster.now_ms - DAY_MS
    assert looked_at(cluster).clock_skew_ms == DAY_MS


def test_a_group_that_can_not_be_read_is_found(cluster: FakeCluster) -> None:
    cluster.commit("secret", {("orders", 0): 1})
    cluster.fail("commits", "secret", Failure("GROUP_AUTHORIZATION_FAILED", "no"))
    found = bad(examine_cluster(looked_at(cluster), MINE))
    assert found == [(Level.PROBLEM, "group secret"), (Level.WARNING, "topic orders")]


def test_requests_are_given_up_soon_by_both_clients() -> None:
    patient = translate({"bootstrap.servers": "localhost:1", "socket.timeout.ms": "60000"})
    settings = with_short_timeouts(patient)
    assert settings.kafka_python["request_timeout_ms"] == 5000
    assert settings.confluent["socket.timeout.ms"] == "5000"
    assert settings.request_timeout_s == 5
    shorter = with_short_timeouts(
        translate({"bootstrap.servers": "localhost:1", "socket.timeout.ms": "1000"})
    )
    assert shorter.request_timeout_s == 1


def test_one_name_is_the_subject_and_several_are_listed() -> None:
    (one,) = about(Level.WARNING, "topic", ["a"], "held")
    assert (one.subject, one.sentence) == ("topic a", "held")
    (many,) = about(Level.WARNING, "topic", list("fedcba"), "held")
    assert (many.subject, many.sentence) == ("6 topics", "held: a, b, c, d and 2 more")
    assert many.names == tuple("abcdef")
    assert about(Level.WARNING, "topic", [], "held") == []
    assert first_names(["a", "b"]) == "a, b"


def test_a_cluster_that_an_error_keeps_from_being_examined_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else doctor would end with "no problems", and have seen nothing."""

    def broken(_settings: object) -> None:
        raise UnicodeError("label empty or too long")

    monkeypatch.setattr("retentiond.tools.doctor.cluster.try_servers", broken)
    monkeypatch.setattr("retentiond.tools.doctor.examine.examine_host", lambda *_: ())
    examination = examine(MINE, lambda: 0)
    assert examination.problems == 1
    assert "UnicodeError: label empty or too long" in examination.findings[0].sentence
