"""Names are hostile, and a browser is told to run nothing that isn't ours."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from retentiond.model import Reason
from retentiond.tell.page.render import group_path
from retentiond.tell.report import CycleReport
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor

HOSTILE_PAGE = f"/topics/{quote(scenes.HOSTILE_TOPIC, safe='')}"
HOSTILE_GROUP_PAGE = f"/{group_path(scenes.HOSTILE_GROUP)}"
UNKNOWN = quote("<script>alert(3)</script>", safe="")
PAGES = ["/", HOSTILE_PAGE, f"/topics/{UNKNOWN}", HOSTILE_GROUP_PAGE, f"/groups/{UNKNOWN}"]


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    commits = {scenes.HOSTILE_GROUP: {0: 10}}
    safe = {name.encode(errors="replace").decode(): each for name, each in commits.items()}
    scenes.remember(tmp_path, scenes.HOSTILE_TOPIC, safe)
    scenes.deleted(tmp_path, scenes.HOSTILE_TOPIC, [scenes.NOW_MS])
    return Visitor(tmp_path, scenes.hostile())


@pytest.mark.parametrize("path", PAGES)
def test_a_hostile_name_stays_text(visitor: Visitor, path: str) -> None:
    document = visitor.see(path)
    assert [each["src"].split("?")[0] for each in document.all("script") if each["src"]] in (
        ["./assets/page.js"],
        ["../assets/page.js"],
    )
    tags = {tag for tag, _ in document.elements}
    assert not tags & {"b", "i", "s", "u", "img", "style"}
    attributes = {name for _, given in document.elements for name in given}
    assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_a_hostile_name_can_be_read(visitor: Visitor) -> None:
    text = visitor.see(HOSTILE_PAGE).text
    assert scenes.HOSTILE_TOPIC in text
    assert "{{ 7 * 7 }}" in text
    assert "49" not in text
    assert "<u>a broker</u> is down" in text
    assert "<i>stuck</i>" in text


def test_characters_that_nobody_can_see_are_shown_as_such(visitor: Visitor) -> None:
    html = visitor.get(HOSTILE_PAGE).text
    assert not set(html) & {"\x00", "\N{RIGHT-TO-LEFT OVERRIDE}"}
    assert "\N{REPLACEMENT CHARACTER}gro\N{REPLACEMENT CHARACTER}up" in html


@pytest.mark.parametrize("what", ["topics", "groups"])
def test_a_link_leads_there_whatever_the_name(visitor: Visitor, what: str) -> None:
    links = {each["href"] or "" for each in visitor.see("/").all("a")}
    (link,) = [each for each in links if what in each]
    assert re.fullmatch(rf"\./{what}/[A-Za-z0-9._~%-]+", link)
    assert visitor.get(link.removeprefix(".")).status_code == 200


@pytest.mark.parametrize("name", ["a/b", "..%2f", "ünï", "a b", "a%20b", "#", "?", "\N{SNOWMAN}"])
def test_any_name_has_an_address(tmp_path: Path, name: str) -> None:
    visitor = Visitor(tmp_path, scenes.report([scenes.partition(name, 0, committed=1)]))
    assert visitor.get(f"/topics/{quote(name, safe='')}").status_code == 200


def test_a_filter_is_shown_as_it_was_given_and_escaped(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(300))
    wanted = "\"><script>alert(1)</script>'"
    document = visitor.see(f"/?name={quote(wanted)}")
    (field,) = document.all("input")
    assert field["value"] == wanted
    assert len(document.all("script")) == 1


@pytest.mark.parametrize("path", [*PAGES, "/?name=x"])
def test_a_browser_may_run_and_load_only_what_the_daemon_serves(
    visitor: Visitor, path: str
) -> None:
    headers = visitor.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("report", [None, scenes.plausible(), scenes.hostile()])
@pytest.mark.parametrize(
    "path",
    ["/", "/topics/orders.enriched", HOSTILE_PAGE, "/groups/fraud-detector", HOSTILE_GROUP_PAGE],
)
def test_every_element_is_closed_and_nothing_comes_from_elsewhere(
    tmp_path: Path, path: str, report: CycleReport | None
) -> None:
    document = Visitor(tmp_path, report).see(path)
    assert document.open == []
    addresses = [
        each.get("src") or each.get("href") or ""
        for tag, each in document.elements
        if tag in ("a", "link", "script", "img")
    ]
    assert [each for each in addresses if not re.match(r"(\.{1,2}/|#|\?)", each)] == []
    ids = [each["id"] for _, each in document.elements if each.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["page.css", "page.js", "icon.svg"])
def test_an_asset_is_kept_by_the_browser_until_it_changes(visitor: Visitor, name: str) -> None:
    found = re.search(rf"\./(assets/{name}\?v=\w+)", visitor.get("/").text)
    assert found
    versioned = visitor.get(f"/{found[1]}")
    assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
    of_another_release = visitor.get(f"/assets/{name}?v=0123456789abcdef")
    assert of_another_release.headers["cache-control"] == "no-cache"
    plain = visitor.get(f"/assets/{name}")
    assert plain.headers["cache-control"] == "no-cache"
    again = visitor.get(f"/assets/{name}", **{"if-none-match": f'W/{plain.headers["etag"]}, "x"'})
    assert (again.status_code, again.content) == (304, b"")
    other = visitor.get(f"/assets/{name}", **{"if-none-match": '"x"'})
    assert (other.status_code, other.content) == (200, plain.content)


@pytest.mark.parametrize("path", ["/assets/..%2froutes.py", "/api/plans"])
def test_what_there_is_not_is_not_found(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/topics/orders", "/groups/billing", "/assets/page.js"),
        *("/metrics", "/healthz", "/readyz", "/api/plan"),
    ],
)
def test_nothing_can_be_changed_through_the_port(visitor: Visitor, path: str) -> None:
    assert visitor.ask("POST", path).status_code == 405


def test_a_group_id_of_30_kb_makes_no_long_page_and_an_empty_one_no_blank(tmp_path: Path) -> None:
    long = "a" * 30_000
    rows = [
        scenes.partition("orders", number, Reason.NOT_CONSUMED, group=long) for number in (0, 1)
    ]
    rows.append(scenes.partition("orders", 2, Reason.NOT_CONSUMED, group=""))
    scenes.remember(tmp_path, "orders", {long: {0: 1}, "": {2: 1}})
    visitor = Visitor(tmp_path, scenes.report(rows))
    for path in ("/", "/topics/orders"):
        page = visitor.get(path).text
        assert len(page) < 30_000
        assert "(30,000 characters)" in page
        assert "<bdi>&#34;&#34;" in page
