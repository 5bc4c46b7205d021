"""The dashboard is the one that the code makes, and asks only for what there is."""

from __future__ import annotations

import pytest

from devkit.dashboard.dashboard import text
from retentiond.tell.metric_definitions import ALL
from tests.support.dashboard import FILE, dashboard, panels, queries
from tests.unit.test_prometheus_rules import METRIC, RECORDED, rules, series

NOT_SHOWN = {
    "retentiond_build_info",  # the list of instances
    "retentiond_config_last_reload_successful",  # the log says why it was not
    "retentiond_dry_run",  # a setting; the status page shows it
    "retentiond_paused",  # as above
    "retentiond_cutoff_offset",  # of every partition: `retentiond explain` and the status page
    "retentiond_history_last_write_timestamp_seconds",  # what could not be written is
    "retentiond_log_dir_full_seconds",  # absent while no disk is filling; what is free is shown
    "retentiond_orphan_last_look_timestamp_seconds",  # of another job
    "retentiond_orphan_log_partition_count",  # their bytes are
}


def test_the_committed_dashboard_is_the_one_that_the_code_makes() -> None:
    assert FILE.read_text() == text(), "run: PYTHONPATH=scripts python -m devkit.dashboard"


def test_every_series_that_the_dashboard_asks_for_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for _, expr in queries():
        assert set(METRIC.findall(expr)) <= series()
        assert set(RECORDED.findall(expr)) <= recorded


def test_every_metric_is_on_the_dashboard_unless_it_has_no_place_there() -> None:
    expressions = [expr for _, expr in queries()] + [
        rule["expr"] for rule in rules() if "record" in rule
    ]
    missing = {each.name for each in ALL if not any(each.name in expr for expr in expressions)}
    assert missing == NOT_SHOWN


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_every_panel_says_what_it_shows_and_asks_the_chosen_prometheus(
    panel: dict[str, object],
) -> None:
    assert panel["title"]
    assert panel["description"]
    assert panel["targets"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_the_dashboard_lets_choose_prometheus_instance_and_topic() -> None:
    names = [variable["name"] for variable in dashboard()["templating"]["list"]]
    assert names == ["datasource", "instance", "topic"]
