"""`simulate --against`: judges the topics whose policy differs, and no others shut the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from retentiond.history.ask.question import TriedPolicy
from tests.support.builders.past_clusters import PastCluster, entry_of_hour, partition_row
from tests.unit.cli.conftest import Command
from tests.unit.config.files import MINIMAL, parsed

pytestmark = pytest.mark.spark

SINCE = ("--since", "2026-03-01T00:00:00Z")

OWN = "{{name: {name}, retention.commitoffset.enable: true, retention.commitoffset.hours: {hours}}}"


class Teams:
    """A main file in force, and a changed one beside it. Thirty hours of orders and clicks.a are
    recorded, and the last four of late.a."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        entries = [
            entry_of_hour(
                hour,
                rows=[
                    partition_row(topic, high_watermark=hour + 5, consumed_retention_ms=3_600_000)
                    for topic in ("orders", "clicks.a", *(["late.a"] if hour >= 26 else []))
                ],
            )
            for hour in range(31)
        ]
        PastCluster(entries).write(folder / "history")
        for which in ("old", "new"):
            (folder / which / "policies.d").mkdir(parents=True)
            self.write(which)

    def write(
        self, which: str, orders: str = "", clicks: str = "", *, dry_run: bool = False
    ) -> None:
        """``orders``, ``clicks``: entries of the teams in place of the usual ones."""
        (self.folder / which / "retentiond.yaml").write_text(
            f"kafka: {{bootstrap.servers: 'nowhere:9092'}}\ndry_run: {str(dry_run).lower()}\n"
            f"state_dir: {self.folder / 'state'}\nhistory: {{path: {self.folder / 'history'}}}\n"
            "spark: {master: 'local[1]'}\npolicies: policies.d/*.yaml\n"
        )
        usual = {"orders": OWN.format(name="orders", hours=2)}
        usual["clicks"] = r"{pattern: 'clicks\..*', retention.commitoffset.enable: true, "
        usual["clicks"] += "retention.commitoffset.hours: 2}"
        for team, said in (("orders", orders), ("clicks", clicks)):
            (self.folder / which / "policies.d" / f"{team}.yaml").write_text(
                f"owner: {team}\ntopics:\n- {said or usual[team]}\n"
            )

    def arguments(self, *more: str) -> tuple[Any, ...]:
        old, new = (self.folder / which / "retentiond.yaml" for which in ("old", "new"))
        asked = ("simulate", "--config", old, "--against", old, "--policy", new, "--exit-code")
        return (*asked, *SINCE, *more)


@pytest.fixture
def teams(tmp_path: Path) -> Teams:
    return Teams(tmp_path)


def test_one_team_s_change_is_judged_and_no_other_team_s_topic(
    command: Command, teams: Teams
) -> None:
    done = command(*teams.arguments())
    assert (done.code, "No topic of that time has a policy that differs" in done.out) == (0, True)

    teams.write("new", orders=OWN.format(name="orders", hours=1))
    done = command(*teams.arguments("--min-observed", "20h", "--output", "json"))
    assert done.out, done.err
    document = json.loads(done.out)
    assert (done.code, document["not_judged"], document["trials"]) == (0, [], [])
    assert [each["topic"] for each in document["topics"]] == ["orders"]


def test_a_setting_on_the_command_line_has_no_lines_to_paste(
    command: Command, teams: Teams
) -> None:
    old = teams.folder / "old" / "retentiond.yaml"
    changed = ("--set", "orders:retention.commitoffset.hours=100")
    done = command(
        *("simulate", "--config", old, "--against", old, *changed, "--exit-code", *SINCE)
    )
    assert (done.code, "not judged: orders: it was observed" in done.out) == (3, True)
    assert "These lines" not in done.out
    assert "clicks" not in done.out


def test_doubts_are_by_owner_and_the_lines_put_them_on_trial(
    command: Command, teams: Teams
) -> None:
    more = "{name: unheard.of, retention.commitoffset.enable: true}"
    teams.write(
        "new",
        orders=f"{OWN.format(name='orders', hours=1)}\n- {more}",
        clicks=r"{pattern: 'clicks\..*', retention.commitoffset.enable: true, "
        "retention.commitoffset.hours: 100, groups: {min: 2}}",
    )
    document = json.loads(command(*teams.arguments("--output", "json")).out)
    assert [each["entry"] for each in document["not_judged"]] == ["clicks.a", "unheard.of"]
    assert all(each["why"] for each in document["not_judged"])
    clicks, orders = document["doubts"]
    assert (clicks["owner"], clicks["entries"]) == ("clicks", ["clicks.a"])
    assert (orders["owner"], orders["file"]) == ("orders", "policies.d/orders.yaml")
    (line,) = yaml.safe_load(orders["trial"])
    assert line == {"name": "unheard.of", "dry_run": True}
    done = command(*teams.arguments())
    assert done.code == 3
    assert "not judged: clicks.a (owner clicks): it was observed for 1 day" in done.out
    assert (
        "These lines under topics in policies.d/clicks.yaml (owner clicks) put them on trial"
        in done.out
    )
    assert clicks["trial"] in done.out

    orders_file, clicks_file = (
        teams.folder / "new" / "policies.d" / f"{team}.yaml" for team in ("orders", "clicks")
    )
    clicks_file.write_text(clicks_file.read_text() + clicks["trial"])
    orders_file.write_text(orders_file.read_text().replace(more, f"{more[:-1]}, dry_run: true}}"))
    done = command(*teams.arguments("--output", "json"))
    assert done.out, done.err
    document = json.loads(done.out)
    assert (done.code, document["not_judged"], document["doubts"]) == (0, [], [])
    assert document["trials"] == [
        {"topic": "clicks.a", "owner": "clicks"},
        {"topic": "unheard.of", "owner": "orders"},
    ]
    assert "on trial, so nothing that is said of them counts: clicks.a, unheard.of" in (
        command(*teams.arguments()).out
    )


def test_a_younger_topic_is_judged_for_its_whole_life(command: Command, teams: Teams) -> None:
    late = OWN.format(name="late.a", hours=1)
    teams.write("new", orders=f"{OWN.format(name='orders', hours=2)}\n- {late}")
    least = ("--min-observed", "20h")
    done = command(*teams.arguments(*least, "--output", "json"))
    (topic,) = json.loads(done.out)["topics"]
    assert (done.code, topic["topic"], topic["whole_life"]) == (0, "late.a", True)
    assert topic["judged_ms"] == topic["observed_ms"] == 4 * 3_600_000
    said = command(*teams.arguments(*least))
    assert "younger than 20 hours, and judged for the whole life: late.a" in said.out
    # It may be as old as the consumed retention of then when it is first seen.
    assert command(*teams.arguments("--min-observed", "5h")).code == 3


@pytest.mark.parametrize(
    "figures",
    [
        {"log_start_offset": 1, "consumed_retention_ms": 0},  # records were there before
        {"reason": "consumed", "consumed_retention_ms": 0},  # it has old ones
        {"consumed_retention_ms": 60 * 3_600_000},  # its records may be 60 hours old
    ],
)
def test_a_topic_that_was_enabled_late_is_not_young(
    command: Command, teams: Teams, tmp_path: Path, figures: dict[str, Any]
) -> None:
    rows = [partition_row("orders", high_watermark=5)]
    late = partition_row("late.a", high_watermark=9, **figures)
    entries = [entry_of_hour(hour, [*rows, *([late] if hour > 26 else [])]) for hour in range(31)]
    place = tmp_path / "other"
    PastCluster(entries).write(place)
    for which in ("old", "new"):
        file = teams.folder / which / "retentiond.yaml"
        file.write_text(file.read_text().replace(str(teams.folder / "history"), str(place)))
    new = f"{OWN.format(name='orders', hours=2)}\n- {OWN.format(name='late.a', hours=1)}"
    orders = teams.folder / "new" / "policies.d" / "orders.yaml"
    orders.write_text(f"owner: orders\ntopics:\n- {new}\n")
    done = command(*teams.arguments("--min-observed", "20h"))
    assert (done.code, "observed too short: late.a, for 3 hours" in done.out) == (
        3,
        True,
    )


TOPICS = """
topics:
  - {name: orders, retention.commitoffset.enable: true, retention.commitoffset.hours: 4}
  - {name: tried, retention.commitoffset.enable: true, dry_run: true}
  - {pattern: 'clicks[.].*', retention.commitoffset.enable: true}
"""


def test_what_differs_is_what_a_topic_gets_and_not_how_a_file_says_it() -> None:
    old = parsed(f"dry_run: false\n{MINIMAL}{TOPICS}")

    def differing(text: str) -> list[str]:
        tried = TriedPolicy(parsed(text), {})
        return [
            topic for topic in ("orders", "tried", "clicks.a", "other") if tried.differs(topic, old)
        ]

    same = f"dry_run: false\n{MINIMAL}{TOPICS.replace('hours: 4', 'minutes: 240')}"
    assert differing(same) == []
    assert differing(same + "defaults: {groups: {min: 2}}\n") == ["orders", "clicks.a"]
    assert differing(same.replace(", dry_run: true", "")) == ["tried"]
    assert differing(same + "  - {name: other, retention.commitoffset.enable: true}\n") == ["other"]
    assert differing(same + "  - {pattern: 'o.*', retention.commitoffset.enable: true}\n") == [
        "other"
    ]


def test_the_end_of_a_dry_run_concerns_every_topic_that_is_not_on_trial() -> None:
    text = f"{MINIMAL}{TOPICS}"
    dry, deleting = parsed(f"dry_run: true\n{text}"), parsed(f"dry_run: false\n{text}")
    topics = ("orders", "tried", "clicks.a")
    tried = TriedPolicy(deleting, {})
    assert [topic for topic in topics if tried.differs(topic, dry)] == ["orders", "clicks.a"]
    assert all(tried.differs_in(entry, dry) for entry in deleting.entries if entry.about[1])
    tried = TriedPolicy(dry, {})
    assert not any(tried.differs(topic, dry) for topic in topics)
    assert not any(tried.differs_in(entry, dry) for entry in dry.entries)
