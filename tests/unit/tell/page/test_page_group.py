"""A group's page: where it binds, how much it keeps, and since when (tests/golden/page)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from retentiond.config.reader import load
from retentiond.history.keeper import HistoryKeeper
from retentiond.model import Reason
from retentiond.tell.report import GroupState
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor, side_by_side
from tests.support.golden import Golden
from tests.unit.config.files import written

ENABLED = "retention.commitoffset.enable: true"


def situations(folder: Path) -> Iterator[tuple[str, str, Visitor]]:
    """Each a title, a group, and a daemon with a state of its own."""
    numbers = count()

    def new() -> Path:
        (made := folder / str(next(numbers))).mkdir()
        return made

    rows = [
        scenes.partition("orders", 0, Reason.NOT_CONSUMED, start=200, committed=200, young=900),
        scenes.partition("orders", 1, Reason.TOO_YOUNG, young=0, group="search"),
        scenes.partition("clicks", 0, Reason.GROUP_WITHOUT_COMMIT, young=500),
        scenes.partition("other", 0, committed=5, group="search"),
    ]
    binds = replace(scenes.report(rows), group_states={"billing": GroupState("consumer", "empty")})
    state = new()
    scenes.remember(state, "orders", {"billing": {0: 200, 1: 1_000}})
    scenes.remember(state, "clicks", {"billing": {}})
    yield "one that binds", "billing", Visitor(state, binds)

    state = new()
    of_it = {"warehouse-sync": {0: 5}}
    scenes.remember(state, "inventory.deltas", of_it, vanished=["warehouse-sync"])
    yield "one that has vanished", "warehouse-sync", Visitor(state, scenes.plausible())

    state = new()
    scenes.remember(state, "orders.enriched", {"billing": {0: 5}}, vanished=["billing"])
    scenes.remember(state, "stage.dedup", {"billing": {0: 5}})
    yield "one that is still on a topic is not gone", "billing", Visitor(state, scenes.plausible())

    state = new()
    scenes.remember(state, "orders.enriched", {"forgotten one": {0: 5}})
    yield "one that only memory knows", "forgotten one", Visitor(state, scenes.plausible())

    idle = replace(scenes.plausible(), group_states={"idle": GroupState("share", "live")})
    yield "one that reads none of these topics, without a memory", "idle", Visitor(new(), idle)


def test_what_it_shows(tmp_path: Path, golden: Golden) -> None:
    pages = {
        title: visitor.see(f"/groups/{quote(group)}").main
        for title, group, visitor in situations(tmp_path)
    }
    golden("page/group.txt", side_by_side(pages))


@pytest.mark.parametrize(
    ("group", "topic"),
    [("warehouse-sync", "inventory.deltas"), ("fraud-detector", "orders.enriched")],
)
def test_of_a_group_that_has_vanished_it_says_which_file_requires_it(
    tmp_path: Path, group: str, topic: str
) -> None:
    entry = f"{{name: {topic}, groups: {{required: [{group}]}}, {ENABLED}}}"
    file = f"owner: payments\ntopics: [{entry}]\n"
    config = load(written(tmp_path, "policies: policies.d/*.yaml\n", payments=file))
    is_gone = group == "warehouse-sync"
    scenes.remember(tmp_path, topic, {group: {0: 5}}, vanished=[group] if is_gone else [])
    visitor = Visitor(tmp_path, scenes.plausible(), HistoryKeeper(config))
    said = f"But policies.d/payments.yaml requires it on {topic}: take it out there first."
    assert (said in visitor.see(f"/groups/{group}").text) is is_gone


def test_it_agrees_with_the_topics_page(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.plausible())
    scenes.remember(tmp_path, "orders.enriched", {"fraud-detector": {12: 50_000_000}})
    assert "129 GiB 112,000,000 records" in visitor.see("/topics/orders.enriched").text
    assert "It keeps 129 GiB 112,000,000 records" in visitor.see("/groups/fraud-detector").text


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
