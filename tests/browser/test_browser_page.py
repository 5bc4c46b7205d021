"""The status page as an operator uses it: look, click, type, come back, use the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import bcrypt
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, HttpCredentials, Page, expect

from retentiond.config import Http
from retentiond.config.config import Tls
from retentiond.history.hourly import Hourly
from retentiond.model import Reason
from tests.browser.conftest import OpenPage, Site
from tests.support import scenes
from tests.support.builders import recent_days
from tests.support.certificates import Authority

pytestmark = pytest.mark.browser

RENEWAL_MS = 10_000
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 360, "height": 800}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Hourly:
    return recent_days.write(tmp_path_factory.mktemp("history"), scenes.NOW_MS, days=4)


def topics(page: Page) -> list[str]:
    return page.locator("#results tbody th").all_inner_texts()


def test_a_click_on_a_topic_shows_why_it_stands_where_it_does(site: Site, visit: OpenPage) -> None:
    site.show(scenes.plausible())
    page = visit()
    expect(page.get_by_role("status").first).to_contain_text("Dry run")
    page.get_by_role("link", name="inventory.deltas").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("inventory.deltas")
    expect(page.locator("#reasons")).to_contain_text("warehouse-sync has vanished")
    expect(page.locator("#reasons")).to_contain_text("retentiond groups forget warehouse-sync")
    page.get_by_role("link", name="All topics").click()
    expect(page.locator("#results tbody tr")).to_have_count(12)


def test_typing_filters_at_once_and_the_address_keeps_it(site: Site, visit: OpenPage) -> None:
    site.show(scenes.plausible())
    page = visit()
    page.get_by_label("Topic", exact=True).press_sequentially("STAGE")
    expect(page.locator("#found")).to_have_text("2 of 12 topics")
    assert topics(page) == ["stage.geo-lookup", "stage.dedup"]
    assert page.url.endswith("/?name=STAGE")
    expect(page.get_by_label("Topic", exact=True)).to_be_focused()
    page.reload()
    assert topics(page) == ["stage.geo-lookup", "stage.dedup"]
    page.get_by_label("Topic", exact=True).fill("")
    expect(page.locator("#found")).to_have_text("12 topics")
    assert page.url == site.url


def test_a_deep_link_shows_a_topics_partitions_and_its_filter(site: Site, visit: OpenPage) -> None:
    site.show(scenes.plausible())
    page = visit("topics/orders.enriched?verdict=nothing")
    expect(page.locator("#found")).to_have_text("4 of 16 partitions")
    expect(page.get_by_label("with verdict")).to_have_value("nothing")
    page.get_by_label("with verdict").select_option("delete")
    expect(page.locator("#found")).to_have_text("12 of 16 partitions")
    assert page.url.endswith("/topics/orders.enriched?verdict=delete")


def test_it_renews_itself_and_keeps_filter_focus_and_place(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(90))
    page = visit(viewport={"width": 1000, "height": 500})
    page.clock.install()
    page.reload()
    page.get_by_label("Topic", exact=True).fill("topic-0000")
    expect(page.locator("#found")).to_have_text("10 of 90 topics")
    page.get_by_role("link", name="topic-00002").focus()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 0
    site.show(scenes.many_topics(91))
    page.clock.run_for(RENEWAL_MS)
    expect(page.locator("#found")).to_have_text("10 of 91 topics")
    expect(page.get_by_role("link", name="topic-00002")).to_be_focused()
    expect(page.get_by_label("Topic", exact=True)).to_have_value("topic-0000")
    assert page.evaluate("scrollY") == scrolled


def test_a_status_is_told_when_it_changes_and_only_then(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(5))
    page = visit()
    page.clock.install()
    page.reload()
    page.evaluate(
        """() => {
            window.told = [];
            for (const status of document.querySelectorAll("[role=status]"))
                new MutationObserver(() => window.told.push(status.textContent.trim()))
                    .observe(status, { childList: true, subtree: true, characterData: true });
        }"""
    )
    site.show(scenes.many_topics(5))
    page.clock.run_for(RENEWAL_MS)
    site.show(scenes.report(scenes.many_topics(5).plan.rows, problems=("broker 2 is down",)))
    page.clock.run_for(RENEWAL_MS)
    expect(page.locator("#health")).to_have_class("health warn")
    told = page.evaluate("window.told")
    assert len(told) == 1
    assert told[0].startswith("Incomplete broker 2 is down")


def test_a_half_typed_filter_survives_a_renewal(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(5))
    page = visit()
    page.clock.install()
    page.reload()
    field = page.get_by_label("Topic", exact=True)
    field.press_sequentially("topic-00003")
    field.press("ArrowLeft")
    field.press("Backspace")
    page.clock.run_for(RENEWAL_MS)
    expect(page.locator("#found")).to_have_text("0 of 5 topics")
    expect(field).to_be_focused()
    assert field.evaluate("field => [field.value, field.selectionStart]") == ["topic-0003", 9]


def test_renewal_can_be_paused(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(5))
    page = visit()
    page.clock.install()
    page.reload()
    button = page.get_by_role("button", name="Pause refresh")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    site.show(scenes.many_topics(6))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(3 * RENEWAL_MS)
    button.press("Enter")
    expect(page.locator("#found")).to_have_text("6 topics")
    assert asked == [site.url]


def test_what_is_unfolded_stays_so(site: Site, visit: OpenPage) -> None:
    scenes.deleted(site.state_dir, "firehose", [scenes.NOW_MS])
    site.show(scenes.many_partitions(4))
    page = visit("topics/firehose")
    page.clock.install()
    page.reload()
    page.locator("#by-day summary").click()
    site.show(scenes.many_partitions(5))
    page.clock.run_for(RENEWAL_MS)
    expect(page.locator("#found")).to_have_text("5 partitions")
    expect(page.locator("#by-day table")).to_be_visible()


def test_the_first_plan_appears_by_itself(site: Site, visit: OpenPage) -> None:
    page = visit()
    page.clock.install()
    page.reload()
    expect(page.locator("main")).to_contain_text("Nothing to show before the first cycle.")
    site.show(scenes.many_topics(3))
    page.clock.run_for(RENEWAL_MS)
    expect(page.locator("#found")).to_have_text("3 topics")


def test_a_daemon_that_is_gone_is_said_and_what_was_seen_stays(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(3))
    page = visit()
    page.clock.install()
    page.reload()
    site.server.stop()
    page.clock.run_for(RENEWAL_MS)
    expect(page.get_by_role("alert")).to_contain_text("retentiond can't be reached since")
    expect(page.locator("#found")).to_have_text("3 topics")


def test_a_daemon_that_hangs_is_told_as_well(site: Site, visit: OpenPage) -> None:
    """It takes the connection and says nothing; a browser's clock can't be set for that."""
    site.show(scenes.many_topics(1))
    page = visit()
    page.clock.resume()
    page.route("**/*", lambda _: None)
    page.clock.run_for(RENEWAL_MS)
    expect(page.get_by_role("alert")).to_contain_text(
        "retentiond can't be reached since", timeout=2 * RENEWAL_MS
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Its port speaks TLS, and lets in who knows a password."""
    folder = tmp_path_factory.mktemp("secured")
    issued = Authority(folder).issue("page")
    site = Site(
        folder,
        Http(
            host="127.0.0.1",
            port=0,
            tls=Tls(certificate=issued.certificate, key=issued.key),
            basic_auth={"ada": bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()},
        ),
    )
    site.server.start()
    yield site
    site.server.stop()


@pytest.mark.parametrize("login", ["asked for", "in the address"])
def test_behind_tls_and_a_password_it_renews_itself_and_filters(
    chromium: Browser, secured: Site, login: str
) -> None:
    secured.show(scenes.many_topics(5))
    known: HttpCredentials | None = None
    if login == "asked for":
        known = {"username": "ada", "password": "right"}
    address = secured.url if known else secured.url.replace("://", "://ada:right@")
    context = chromium.new_context(ignore_https_errors=True, http_credentials=known)
    with closing(context):
        page = context.new_page()
        page.clock.install()
        page.goto(address)
        expect(page.locator("#found")).to_have_text("5 topics")
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px"  # by page.css
        secured.show(scenes.many_topics(6))
        page.clock.run_for(RENEWAL_MS)
        expect(page.locator("#found")).to_have_text("6 topics")
        page.get_by_label("Topic", exact=True).fill("topic-00003")
        page.clock.run_for(RENEWAL_MS)
        expect(page.locator("#found")).to_have_text("1 of 6 topics")
        page.get_by_role("link", name="topic-00003").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("topic-00003")
        page.clock.run_for(RENEWAL_MS)
        expect(page.get_by_role("alert")).to_be_hidden()


def test_without_a_script_everything_is_there(site: Site, visit: OpenPage) -> None:
    site.show(scenes.plausible())
    page = visit(java_script_enabled=False)
    expect(page.get_by_role("button", name="Pause refresh")).to_be_hidden()
    page.get_by_label("Topic", exact=True).fill("stage")
    page.get_by_label("with verdict").select_option("delete")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#found")).to_have_text("2 of 12 topics")
    assert page.url.endswith("/?name=stage&verdict=delete")
    page.get_by_role("link", name="stage.dedup").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("stage.dedup")


@pytest.mark.parametrize("script", [True, False])
def test_a_heading_sorts_and_filter_and_time_stay(
    site: Site, visit: OpenPage, days: Hourly, script: bool
) -> None:
    site.keeper.hourly = days
    site.show(scenes.plausible())
    page = visit(java_script_enabled=script)
    page.get_by_role("link", name="7 days").click()
    page.get_by_role("link", name="On disk", exact=True).click()
    heading = page.get_by_role("columnheader", name="On disk")
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert topics(page)[:3] == ["orders.enriched", "clicks.sessionized", "inventory.deltas"]
    heading.get_by_role("link").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert topics(page)[:2] == ["empty.new", "shipments.tracked"]
    page.get_by_label("Topic", exact=True).fill("stage")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#found")).to_have_text("2 of 12 topics")
    assert topics(page) == ["stage.dedup", "stage.geo-lookup"]
    assert page.url.replace("&verdict=", "").endswith("/?name=stage&sort=bytes&span=7d")
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_history_is_drawn_in_the_pages_colours(
    site: Site, visit: OpenPage, days: Hourly, scheme: str
) -> None:
    site.keeper.hourly = days
    site.show(scenes.plausible())
    page = visit(color_scheme=scheme)
    expect(page.locator("#recent svg.chart")).to_have_count(3)
    colour = "element => getComputedStyle(element)"
    paths = page.locator("#recent figure").first.locator(".series path")
    fills = {each.evaluate(f"{colour}.color") for each in paths.all()}
    assert len(fills) == 9
    text = page.locator("#recent svg.chart text").first
    assert text.evaluate(f"{colour}.fill") == page.locator("footer").evaluate(f"{colour}.color")
    assert page.locator("#recent .legend a").first.inner_text() == "orders.enriched"


def test_thousands_of_topics_can_be_paged_and_found(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(2_000))
    page = visit()
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#results")).to_contain_text("page 2 of 20")
    page.get_by_label("Topic", exact=True).press_sequentially("00007")
    expect(page.locator("#found")).to_have_text("1 of 2,000 topics")


def test_hostile_names_run_nothing(site: Site, visit: OpenPage) -> None:
    site.show(scenes.hostile())
    page = visit()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.get_by_role("link", name="gro\N{REPLACEMENT CHARACTER}up").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("{{ 7 * 7 }}")
    page.get_by_role("link", name="alert(1)").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(scenes.HOSTILE_TOPIC)
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["", "topics/orders.enriched", "topics/none", "groups/warehouse-sync", "groups/none"]
)
def test_it_is_accessible(
    site: Site, visit: OpenPage, days: Hourly, scheme: str, path: str
) -> None:
    scenes.deleted(site.state_dir, "orders.enriched", [scenes.NOW_MS])
    scenes.remember(
        site.state_dir, "orders.enriched", {"old": {0: 1}, "billing": {0: 2}}, vanished=["old"]
    )
    site.keeper.hourly = days
    site.show(scenes.plausible())
    page = visit(path, color_scheme=scheme, viewport=WIDE)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("problems", [(), ("broker 2 is down",)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_can_be_read(
    site: Site, visit: OpenPage, scheme: str, problems: tuple[str, ...]
) -> None:
    site.show(scenes.report(scenes.plausible().plan.rows, problems=problems))
    page = visit(color_scheme=scheme)
    for trouble in (None, "KafkaUnavailable"):
        site.status.problem = trouble
        page.reload()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", ["?span=7d", "topics/orders.enriched", "groups/fraud-detector"])
def test_a_narrow_screen_scrolls_tables_and_never_the_page(
    site: Site, visit: OpenPage, days: Hourly, path: str
) -> None:
    site.keeper.hourly = days
    site.show(scenes.plausible())
    page = visit(path, viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    for each in page.locator("svg.chart").all():
        box = each.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW["width"]
        assert box["height"] > 100


def test_the_keyboard_reaches_everything_in_order(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(1))
    page = visit()
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(document.activeElement.textContent.trim() || document.activeElement.id)"
                ".split('\\n')[0]"
            )
        )
    assert reached == [
        "Skip to the content", "retentiond", "Plan as JSON", "Metrics", "Readiness",
        "Pause refresh", "billing has yet to read them", "24 hours", "7 days", "30 days",
        "name", "any", "Filter",
        "Topics, those that free most first", "Topic", "Freed", "On disk",
        "What keeps most of the rest", "topic-00000", "billing has yet to read them",
    ]  # fmt: skip
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_skipping_leads_to_the_content(site: Site, visit: OpenPage) -> None:
    site.show(scenes.many_topics(1))
    page = visit()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize("name", ["a/b c%20d?e#f&g;h+i", "..", ".", "../x"])
def test_a_link_to_a_group_of_any_name_works(site: Site, visit: OpenPage, name: str) -> None:
    row = scenes.partition("orders", 0, Reason.NOT_CONSUMED, committed=5, group=name)
    site.show(scenes.report([row]))
    page = visit()
    page.get_by_role("link", name=f"{name} has yet to read them").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Group {name}")
