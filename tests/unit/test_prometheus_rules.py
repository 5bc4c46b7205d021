"""The rules beside Prometheus: promtool accepts them, they fire when they should, and what they
name exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.dashboard.dashboard import text as dashboard
from retentiond.tell.metrics.definition import HISTOGRAM
from retentiond.tell.metrics.registry import ALL
from tests.support.prometheus import DEPLOYED, ROOT, tool

RULE_FILES = ("recording_rules.yml", "alerts.yml")
TEST_FILES = tuple(sorted(path.name for path in DEPLOYED.glob("alerts_*test.yml")))
FIRING = re.compile(r'alertname="(\w+)"')

METRIC = re.compile(r"(?<![\w:])retentiond_\w+")
RECORDED = re.compile(r"\b\w+:retentiond_\w+:\w+")

RUNBOOK = ROOT / "docs" / "runbook.md"


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOYED / name).read_text())


def rules() -> Iterator[dict[str, Any]]:
    for name in RULE_FILES:
        for group in read(name)["groups"]:
            yield from group["rules"]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def series() -> set[str]:
    """Every name that a query may ask for."""
    names = {each.name for each in ALL}
    for each in ALL:
        if each.type == HISTOGRAM:
            names |= {f"{each.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def sections() -> set[str]:
    """The anchors of the runbook."""
    return {
        line.removeprefix("## ").strip().lower()
        for line in RUNBOOK.read_text().splitlines()
        if line.startswith("## ")
    }


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("promtool"), *arguments], cwd=DEPLOYED, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", [("check", "rules", *RULE_FILES),
                                       ("check", "config", "prometheus.yml")])  # fmt: skip
def test_promtool_accepts_what_is_deployed(arguments: tuple[str, ...]) -> None:
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_not_before() -> None:
    done = promtool("test", "rules", *TEST_FILES)
    assert done.returncode == 0, done.stdout + done.stderr


MUTING = re.compile(
    "one page after an hour|without DELETE|stays Pending|under pressure that is full"
)


def test_labels_that_an_operator_adds_to_the_alerts_change_nothing_about_what_mutes_what(
    tmp_path: Path,
) -> None:
    groups = read("alerts.yml")
    for rule in groups["groups"][0]["rules"]:
        rule["labels"] |= {"team": "platform", "tier": rule["alert"]}
    scenarios = read("alerts_scenarios_test.yml")
    scenarios["tests"] = [each for each in scenarios["tests"] if MUTING.search(each["name"])]
    assert len(scenarios["tests"]) == 4
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(groups))
    shutil.copy(DEPLOYED / "recording_rules.yml", tmp_path)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(scenarios))
    done = promtool("test", "rules", str(tmp_path / "test.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_to_fire_and_to_stay_silent() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    names = {alert["alert"] for alert in alerts()}
    for test in (test for name in TEST_FILES for test in read(name)["tests"]):
        for expected in test.get("alert_rule_test", ()):
            (fires if expected.get("exp_alerts") else silent).add(expected["alertname"])
        for expected in test.get("promql_expr_test", ()):
            if not expected["expr"].startswith("count by"):
                continue
            told = {FIRING.findall(each["labels"])[0] for each in expected["exp_samples"]}
            fires |= told
            silent |= names - told  # a scenario lists all that fires
        for expected in test.get("promql_expr_test", ()):
            for each in expected["exp_samples"]:
                fires.update(FIRING.findall(each["labels"]))
    assert (fires, silent) == (names, names)


def test_every_alert_has_its_section_in_the_runbook_and_every_section_its_alert() -> None:
    urls = [alert["annotations"]["runbook_url"] for alert in alerts()]
    assert [url for url in urls if not url.startswith("docs/runbook.md#")] == []
    assert sorted(url.partition("#")[2] for url in urls) == sorted(sections())
    for alert in alerts():
        assert alert["annotations"]["runbook_url"].endswith(f"#{alert['alert'].lower()}")


def test_the_runbook_names_the_alerts_that_wake_somebody() -> None:
    named = re.findall(r"^\| \[(\w+)\]\(#", RUNBOOK.read_text(), re.MULTILINE)
    critical = [each["alert"] for each in alerts() if each["labels"]["severity"] == "critical"]
    assert sorted(named) == sorted(critical)


def test_every_alert_says_what_it_is_and_how_bad() -> None:
    for alert in alerts():
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["for"] not in ("", "0s")
        assert "$labels.kafka_cluster $labels.instance" in alert["annotations"]["summary"]


def test_the_job_is_named_in_one_place_and_no_rule_drops_a_target_s_labels() -> None:
    """So that one replacement changes it, and alerts say all that a scrape configuration does."""
    text = "".join((DEPLOYED / name).read_text() for name in RULE_FILES)
    assert [rule["expr"] for rule in rules() if "job=" in rule["expr"]] == ['up{job="retentiond"}']
    assert text.count('up{job="retentiond"}') == 1
    assert [rule["expr"] for rule in rules() if re.search(r"\bby\b", rule["expr"])] == []
    assert [alert["alert"] for alert in alerts() if re.search(r"\bup\b", alert["expr"])] == []
    # `on ()` joins on no label: it asks whether there is anything at all.
    assert [rule["expr"] for rule in rules() if re.search(r"\bon\b *\([^)]", rule["expr"])] == []


def test_no_rule_asks_for_series_by_partition_which_can_be_switched_off() -> None:
    by_partition = {each.name for each in ALL if "partition" in each.labels}
    assert len(by_partition) == 4
    for rule in rules():
        assert set(METRIC.findall(rule["expr"])) & by_partition == set()


def test_every_metric_in_a_rule_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        assert set(METRIC.findall(rule["expr"])) <= series()
        assert set(RECORDED.findall(rule["expr"])) <= recorded


def test_every_recorded_series_is_asked_for_by_an_alert_or_the_dashboard() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = {name for rule in rules() for name in RECORDED.findall(rule["expr"])}
    assert recorded - asked - set(RECORDED.findall(dashboard())) == set()


def test_the_composed_prometheus_loads_all_rules() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    volumes = compose["services"]["prometheus"]["volumes"]
    assert tuple(read("prometheus.yml")["rule_files"]) == RULE_FILES
    for name in RULE_FILES:
        assert f"./prometheus/{name}:/etc/prometheus/{name}:ro" in volumes
