"""A group's page: where it binds, how much it keeps, and since when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from retentiond.model import Reason
from retentiond.tell.report import GroupState
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor

HOUR_MS = 3_600_000


def test_it_says_what_the_group_binds_keeps_and_has_yet_to_read(tmp_path: Path) -> None:
    rows = [
        scenes.partition("orders", 0, Reason.NOT_CONSUMED, start=200, committed=200, young=900),
        scenes.partition("orders", 1, Reason.TOO_YOUNG, young=0, group="search"),
        scenes.partition("clicks", 0, Reason.GROUP_WITHOUT_COMMIT, young=500),
        scenes.partition("other", 0, committed=5, group="search"),
    ]
    report = replace(scenes.report(rows), group_states={"billing": GroupState("consumer", "empty")})
    scenes.remember(tmp_path, "orders", {"billing": {0: 200, 1: 1_000}})
    scenes.remember(tmp_path, "clicks", {"billing": {}})
    text = Visitor(tmp_path, report).see("/groups/billing").text
    assert "Group billing" in text
    assert "It keeps 1.4 MiB 1,200 records that could go without it, since 1 h ago" in text
    assert "It binds 2 partitions of 2 topics, 1 held" in text
    assert "It has yet to read 800 records, as far as its commits are known" in text
    assert "State empty consumer group" in text
    assert "orders 1 of 2 845 KiB 700 800 1 h ago 2" in text


def test_it_agrees_with_the_topics_page(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.plausible())
    scenes.remember(tmp_path, "orders.enriched", {"fraud-detector": {12: 50_000_000}})
    assert "129 GiB 112,000,000 records" in visitor.see("/topics/orders.enriched").text
    assert "It keeps 129 GiB 112,000,000 records" in visitor.see("/groups/fraud-detector").text


def test_a_vanished_group_says_since_when_and_how_to_forget_it(tmp_path: Path) -> None:
    scenes.remember(
        tmp_path, "inventory.deltas", {"warehouse-sync": {0: 5}}, vanished=["warehouse-sync"]
    )
    text = Visitor(tmp_path, scenes.plausible()).see("/groups/warehouse-sync").text
    assert "State vanished consumer group; gone since 2026-09-21" in text
    assert "retentiond groups forget warehouse-sync lets go of this one" in text


def test_one_that_is_still_on_a_topic_is_not_gone(tmp_path: Path) -> None:
    scenes.remember(tmp_path, "orders.enriched", {"billing": {0: 5}}, vanished=["billing"])
    scenes.remember(tmp_path, "stage.dedup", {"billing": {0: 5}})
    assert "gone since" not in Visitor(tmp_path, scenes.plausible()).see("/groups/billing").text


def test_a_group_that_only_memory_knows_has_a_page_too(tmp_path: Path) -> None:
    scenes.remember(tmp_path, "orders.enriched", {"forgotten one": {0: 5}})
    text = Visitor(tmp_path, scenes.plausible()).see("/groups/forgotten%20one").text
    assert "State not seen consumer group, which the last cycle did not see" in text


def test_one_that_reads_none_of_these_topics_says_so(tmp_path: Path) -> None:
    report = replace(scenes.plausible(), group_states={"idle": GroupState("share", "live")})
    text = Visitor(tmp_path, report).see("/groups/idle").text
    assert "It reads no topic of the last plan, and binds none." in text
    assert "The remembered groups can't be read" in text  # there is no file of them here


@pytest.mark.parametrize("name", ["nobody", "", "<script>", "a/b"])
def test_an_unknown_group_is_not_found_with_a_sentence(tmp_path: Path, name: str) -> None:
    visitor = Visitor(tmp_path, scenes.plausible())
    answer = visitor.get(f"/groups/{quote(name, safe='')}")
    assert answer.status_code == 404
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    text = visitor.see(f"/groups/{quote(name, safe='')}").text
    shown = name or '""'
    assert f"No group called {shown} is known: the last cycle did not see one" in text


def test_before_the_first_cycle_no_group_is_known_yet(tmp_path: Path) -> None:
    answer = Visitor(tmp_path).get("/groups/billing")
    assert answer.status_code == 503
    assert "Nothing to show before the first cycle." in answer.text


@pytest.mark.parametrize(
    "name",
    ["billing", "", ".", "..", "a/b", "../..", "ünï", "a%20b", "#?&;", "g" * 30_000],
    ids=lambda name: name[:9],
)
def test_every_page_leads_to_the_group_whatever_its_name(tmp_path: Path, name: str) -> None:
    row = scenes.partition("orders", 0, Reason.NOT_CONSUMED, committed=5, group=name)
    visitor = Visitor(tmp_path, scenes.report([row]))
    scenes.remember(tmp_path, "another", {"x": {0: 1}})
    for page, root in (("/", "./"), ("/topics/orders", "../")):
        links = {each["href"] or "" for each in visitor.see(page).all("a")}
        (link,) = {each for each in links if each.startswith(f"{root}groups/")}
        assert len(link) < 1_000
        assert not set(link.removeprefix(root).split("/")) & {".", ".."}
        answer = visitor.get(link.replace(root, "/", 1))
        assert answer.status_code == 200
        assert "It binds" in answer.text
