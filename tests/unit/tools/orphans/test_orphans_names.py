"""Which folders are partitions', by their names."""

from __future__ import annotations

import re

import pytest

from retentiond.tools.orphans.folder import FolderKind, FolderName, name_for_deletion, parse
from tests.support.builders.orphans_host import HEX


@pytest.mark.parametrize(
    ("name", "parsed_name"),
    [
        ("orders-0", FolderName("orders", 0, FolderKind.REPLICA)),
        ("a-b.c_d-12", FolderName("a-b.c_d", 12, FolderKind.REPLICA)),
        ("orders-1-2", FolderName("orders-1", 2, FolderKind.REPLICA)),
        (f"orders-3.{HEX}-delete", FolderName("orders", 3, FolderKind.DELETE)),
        (f"a.b-3.{HEX}-future", FolderName("a.b", 3, FolderKind.FUTURE)),
        (f"orders-3.{HEX}-stray", FolderName("orders", 3, FolderKind.STRAY)),
        (f"x-0.{HEX}-stray-1", FolderName(f"x-0.{HEX}-stray", 1, FolderKind.REPLICA)),
        ("__consumer_offsets-49", FolderName("__consumer_offsets", 49, FolderKind.REPLICA)),
    ],
)
def test_a_name_of_kafkas_is_read(name: str, parsed_name: FolderName) -> None:
    assert parse(name) == parsed_name


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-",
        "-0",
        "orders-01",
        "orders-x",
        "orders-0-delete",
        f"orders-0.{HEX}-deleted",
        f"orders-0.{HEX[:-1]}-delete",
        f"orders-0.{HEX.upper()}-stray",
        f"orders.{HEX}-stray",
        "orders-2147483648",
        "orders-\N{ARABIC-INDIC DIGIT ONE}",
        "bestell\N{LATIN SMALL LETTER U WITH DIAERESIS}ng-0",
        "..-0",
        "lost+found",
        "orders-0\n",
    ],
)
def test_any_other_name_is_not_understood(name: str) -> None:
    assert parse(name) is None


def test_a_topic_whose_name_kafka_may_have_cut_is_marked() -> None:
    rest = f"-0.{HEX}-stray"
    cut, whole = parse("t" * (255 - len(rest)) + rest), parse("t" * (254 - len(rest)) + rest)
    assert cut is not None
    assert whole is not None
    assert (cut.may_be_cut, whole.may_be_cut) == (True, False)


@pytest.mark.parametrize("topic", ["orders", "t" * 249])
def test_what_is_to_be_deleted_has_a_name_that_kafka_deletes(topic: str) -> None:
    name = name_for_deletion(FolderName(topic, 12, FolderKind.STRAY))
    assert len(name) <= 255
    assert re.fullmatch(r"[ot]\w+-12\.[0-9a-f]{32}-delete", name)
    found = parse(name)
    assert found is not None
    assert found.kind is FolderKind.DELETE
