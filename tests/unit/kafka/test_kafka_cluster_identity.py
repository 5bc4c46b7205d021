"""Which cluster this is, and that two are noticed for good."""

from __future__ import annotations

import pytest

from retentiond.errors import OtherCluster
from retentiond.kafka.cluster_identity import ClusterIdentity


def test_the_first_id_is_the_cluster_and_telling_none_changes_nothing() -> None:
    identity = ClusterIdentity()
    for told in (None, "a", None, "a"):
        identity.check(told)
    identity.raise_if_two()


def test_a_second_id_is_named_with_the_first_and_where_to_look() -> None:
    identity = ClusterIdentity("--bootstrap-server")
    identity.check("a")

    with pytest.raises(OtherCluster) as told:
        identity.check("b")

    assert "works on cluster a" in str(told.value)
    assert "belongs to cluster b" in str(told.value)
    assert "--bootstrap-server" in str(told.value)


def test_once_two_were_seen_even_the_first_is_refused() -> None:
    identity = ClusterIdentity()
    identity.check("a")
    with pytest.raises(OtherCluster):
        identity.check("b")

    for told in ("a", None):
        with pytest.raises(OtherCluster):
            identity.check(told)
    with pytest.raises(OtherCluster):
        identity.raise_if_two()


def test_the_brokers_are_those_of_the_last_answer_and_of_no_other_cluster() -> None:
    identity = ClusterIdentity()
    assert identity.servers == ""
    identity.learn("a", [(1, "one", 9092), (2, "::1", 9093)])
    assert identity.servers == "[::1]:9093,one:9092"
    identity.learn("a", [(2, "two", 9093)])
    assert identity.servers == "two:9093"
    identity.learn("a", [])
    assert identity.servers == "two:9093"

    with pytest.raises(OtherCluster):
        identity.learn("b", [(1, "elsewhere", 9092)])

    assert identity.servers == "two:9093"
