"""The dashboard is the one that the code makes, and asks only for what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.dashboard.dashboard import DAEMON
from retentiond.tell.metrics.registry import ALL
from tests.support.dashboard import (
    choices,
    dashboard,
    everything_chosen,
    marks,
    panels,
    queries,
)
from tests.unit.test_prometheus_rules import METRIC, RECORDED, promtool, rules, series

NOT_SHOWN = {
    "retentiond_config_last_reload_successful",  # the log says why it was not
    "retentiond_cutoff_offset",  # of every partition: `retentiond explain` and the status page
    "retentiond_high_watermark",  # as above
    "retentiond_log_start_offset",  # as above
    "retentiond_min_committed_offset",  # as above
    "retentiond_history_last_write_timestamp_seconds",  # what could not be written is
    "retentiond_kafka_throttled_duration_seconds",  # for who looks into a slow cycle
    "retentiond_look_to_request_duration_seconds",  # as above
    "retentiond_evidence_age_seconds",  # as above
    "retentiond_log_lines_dropped_total",  # a line says so once the log flows again
    "retentiond_orphan_log_partitions",  # their bytes are
}


def test_every_series_that_the_dashboard_asks_for_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for _, expr in (*queries(), *marks(), *((name, of) for name, _, of in choices())):
        assert set(METRIC.findall(expr)) <= series()
        assert set(RECORDED.findall(expr)) <= recorded


def test_every_metric_is_on_the_dashboard_unless_it_has_no_place_there() -> None:
    expressions = [expr for _, expr in queries()] + [
        rule["expr"] for rule in rules() if "record" in rule
    ]
    missing = {each.name for each in ALL if not any(each.name in expr for expr in expressions)}
    assert missing == NOT_SHOWN


def test_only_what_every_daemon_shows_may_be_chosen_by_a_pattern_for_all() -> None:
    """Of jobs and instances Grafana lists all that there are: `.*` would be every target."""
    for variable in dashboard()["templating"]["list"]:
        everything = {"cluster": ".*", "owner": ".*", "topic": ".*"}.get(variable["name"])
        assert variable.get("allValue") == everything


@pytest.mark.parametrize(("title", "expr"), list(queries()), ids=[title for title, _ in queries()])
def test_every_query_is_about_the_chosen_daemons_alone(title: str, expr: str) -> None:
    selectors = re.findall(r"(?:retentiond_\w+|\bup|:\w+)\b(?!:)(\{.*?\})?", expr)
    assert selectors != []
    for selector in selectors:
        assert selector.startswith("{" + DAEMON), title


def figures() -> list[dict[str, Any]]:
    return [panel for panel in panels() if panel["type"] == "stat"]


def assert_shown(folder: Path, series: Mapping[str, Any], shown: Mapping[str, float]) -> None:
    """A quarter of an hour with these values gives these results, by promtool."""
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": f"{value}x20"} for name, value in series.items()
        ],
        "promql_expr_test": [
            {"expr": expr, "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": value}]}
            for expr, value in shown.items()
        ],
    }
    (folder / "shown.yml").write_text(yaml.safe_dump({"tests": [test]}))
    done = promtool("test", "rules", str(folder / "shown.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


ALIVE = {
    "up": 1,
    "retentiond_ready": 1,
    "retentiond_schedule_interval_seconds": 300,
    "retentiond_started_timestamp_seconds": 0,
    "retentiond_last_complete_cycle_timestamp_seconds": 600,
    'retentiond_records_deleted_total{topic="orders"}': 7,
    'retentiond_bytes_freed_total{topic="orders"}': 7,
    "retentiond_history_failures_total": 0,
    'retentiond_partitions{topic="orders"}': 1,
}


@pytest.mark.parametrize(
    ("alive", "dead", "shown"), [(1, 0, None), (1, 1, -1), (0, 2, -2), (0, 0, -1)]
)
def test_no_figure_is_green_while_a_daemon_is_down(
    tmp_path: Path, alive: int, dead: int, shown: int | None
) -> None:
    """None: as long as all are up, each has its figure."""
    values = {
        _with_instance(name, f"alive-{number}"): value
        for number in range(alive)
        for name, value in ALIVE.items()
    }
    values |= {_with_instance("up", f"dead-{number}"): 0 for number in range(dead)}
    exprs = [everything_chosen(panel["targets"][0]["expr"]) for panel in figures()]
    if shown is None:
        exprs, shown = [f"count(({expr}) >= 0)" for expr in exprs], 1
    assert_shown(tmp_path, values, dict.fromkeys(exprs, shown))


@pytest.mark.parametrize(("owner", "wanted"), [(".*", 3), ("payments", 1), ("payments|search", 2)])
def test_every_query_about_topics_is_about_the_chosen_owners_alone(
    tmp_path: Path, owner: str, wanted: int
) -> None:
    """Of three topics one has no owner: it shows where every owner is chosen."""
    values = {
        _with_instance(f'{name}{{topic="{topic}"}}', "a"): 1
        for topic in ("orders", "clicks", "of-nobody")
        for name in ("retentiond_partitions", "retentiond_reclaimable_records")
    }
    values |= {
        _with_instance(f'retentiond_topic_owner_info{{topic="{topic}", owner="{of}"}}', "a"): 1
        for topic, of in (("orders", "payments"), ("clicks", "search"))
    }
    (expr,) = (expr for title, expr in queries() if title == "Records that can be deleted")
    asked = f"count({everything_chosen(expr.replace('$owner', owner))})"
    assert_shown(tmp_path, values, {asked: wanted})
    for title, each in queries():
        assert ("$topic" in each) == ("$owner" in each), title


def _with_instance(series: str, instance: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{job="retentiond", instance="{instance}"{", " + labels if labels else "}"}'
