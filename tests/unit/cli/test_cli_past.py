"""What `simulate`, `recommend` and `report` refuse, before Spark is asked."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from retentiond.cli.output.printing import Printer
from retentiond.cli.past.doubts import NO_SUCH_TOPIC
from retentiond.cli.past.options import period, say_kept_longer
from retentiond.cli.past.recommend import _because, _not_judged, write
from retentiond.config import ExternalReader, TopicPolicy, load
from retentiond.errors import UsageError
from retentiond.fields import rfc3339
from retentiond.formatting import say_retention
from retentiond.history.ask import rows as rows_of_the_past
from retentiond.history.ask.missed import Missed
from retentiond.history.ask.recommend import NOBODY_CAME_BACK, Recommendation
from retentiond.history.ask.rows import sessions_for
from retentiond.history.ask.simulate import SimulatedTopic
from retentiond.history.table import HistoryTable
from tests.support.builders.past_clusters import (
    BEGIN,
    HOUR_MS,
    PastCluster,
    PastEntry,
    commit_row,
    entry_of_hour,
    partition_row,
)
from tests.support.golden import Golden
from tests.unit.cli.conftest import CONFIG, Command, KeptAnswer, Transcript

ONE_TOPIC = [partition_row("orders", high_watermark=5)]
COMMANDS = ("simulate", "recommend", "report")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_every_one_refuses(transcript: Transcript, config: Path, name: str) -> None:
    """In the same words (tests/golden/past), with 2, before Spark is asked."""
    for options in ((), ("--since", "yesterday"), ("--since", "2099-01-01T00:00:00Z")):
        transcript.refused(name, "--config", config, *options)
    transcript.text = transcript.text.replace(f"retentiond {name} ", "retentiond COMMAND ")
    transcript.check("past/refused.txt")


def test_what_one_of_them_refuses(
    transcript: Transcript, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/golden/past: policies and changes that are none, files, figures."""
    monkeypatch.setenv("COLUMNS", "100")
    before = config.read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(CONFIG.replace("minutes: 30", "minutes: soon"))
    for change in (
        "orders",
        "orders:retention.commitoffset.hours",
        "orders:retention.commitoffset.hours=-1",
        "orders:retention.commitoffset.hour=1",
        "orders:groups.min=none",
        "orders:groups.exclude=['(']",
        "orders:retention.commitoffset.pressure.hours=999",
        "orders:name=other",
        "orders:pattern=other",
    ):
        transcript.refused("simulate", "--config", config, "--set", change)
    change = "orders:retention.commitoffset.hours=1"
    transcript.refused("simulate", "--config", config, "--policy", config, "--set", change)
    transcript.refused("simulate", "--config", config, "--policy", wrong)
    transcript.refused("simulate", "--config", config, "--policy", "nofile.yaml")
    transcript.refused("simulate", "--config", config, "--topic", "(")
    transcript.refused("recommend", "--config", config, "--topic", "(")
    transcript.refused("recommend", "--config", config, "--safety", "0.5")
    transcript.refused("recommend", "--config", config, "--write-config", config)
    transcript.refused("report", "--config", config, "--price-per-gib-month", "0.08 USD")
    assert config.read_text() == before
    transcript.check("past/refused-by-one.txt")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_time_without_entries_is_said_with_the_time_of_the_newest(
    command: Command, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    PastCluster([PastEntry(0, rows=ONE_TOPIC)]).write(tmp_path / "state" / "history")
    processes = set(psutil.Process().children(recursive=True))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    if name == "simulate":  # with a JVM of its own, as users have it
        monkeypatch.setattr(rows_of_the_past, "sessions_for", sessions_for)

    done = command(name, "--config", config, "--since", "2026-03-01T12:00:00Z")

    assert done.code == 2
    assert done.err.endswith(" UTC: choose another --since\n")
    assert "2026-03-01 00:00 UTC" in done.err
    assert set(psutil.Process().children(recursive=True)) <= processes  # a JVM was on its way
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("since", "until"),
    [("2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z"), ("2026-03-01T01:00:00Z", "0s")],
)
def test_of_a_time_without_entries_both_ends_may_be_wrong(
    command: Command, config: Path, tmp_path: Path, since: str, until: str
) -> None:
    PastCluster([PastEntry(0, rows=ONE_TOPIC)]).write(tmp_path / "state" / "history")

    done = command("simulate", "--config", config, "--since", since, "--until", until)

    assert done.code == 2
    assert done.err.endswith("choose another --since or --until\n")


def recommendation(topic: str, ms: int, limit_ms: int | None = None) -> Recommendation:
    simulated = SimulatedTopic(topic, ms, 0, 0, False, 9, 9, 9, 9, 0, ())
    return Recommendation(topic, ms, 9, NOBODY_CAME_BACK, 1, False, limit_ms, simulated)


@pytest.mark.parametrize(("pressure_hours", "expected_ms"), [(6, HOUR_MS), (0, 0)])
def test_a_recommended_configuration_can_be_read_whatever_the_pressure_retention(
    config: Path, tmp_path: Path, pressure_hours: int, expected_ms: int
) -> None:
    """6 hours are longer than the recommended hour."""
    config.write_text(
        "disk_pressure: {below_free: 20%, until_free: 30%}\n"
        + CONFIG.replace("minutes: 30", "hours: 24")
        + f"    retention.commitoffset.pressure.hours: {pressure_hours}\n"
    )
    write(tmp_path / "tried.yaml", load(config), [recommendation("orders", HOUR_MS)], (), ())

    policy = load(tmp_path / "tried.yaml").policy_for("orders")
    assert isinstance(policy, TopicPolicy)
    assert policy.consumed_retention_ms == HOUR_MS
    assert policy.pressure_retention_ms == expected_ms
    assert load(tmp_path / "tried.yaml").disk_pressure == load(config).disk_pressure


def test_a_recommended_retention_is_never_longer_than_retention_ms_nor_nothing(
    config: Path, tmp_path: Path
) -> None:
    """A minute and a half is no whole number of minutes, and two would hold the topic."""
    config.write_text(config.read_text().replace("- name: orders", "- pattern: '.*'"))
    found = [recommendation(name, ms, ms) for name, ms in (("orders", 90_000), ("brief", 59_999))]
    write(tmp_path / "tried.yaml", load(config), found, (), ())

    (entry,) = load(tmp_path / "tried.yaml").entries
    assert (entry.topics, entry.policy.consumed_retention_ms) == ("orders", 60_000)
    assert _because(found[0]) == "limited by retention.ms"
    text = (tmp_path / "tried.yaml").read_text()
    assert "# brief: left out: its retention.ms is below a minute\n" in text


@pytest.mark.parametrize("since", ["1000000d", "0001-01-01T00:00:00+14:00"])
def test_a_period_that_begins_before_1970_begins_then(since: str) -> None:
    assert rfc3339(period(since, "2026-02-01t12:00:00z").since_ms) == "1970-01-01T00:00:00.000Z"


@pytest.mark.spark
def test_a_damaged_file_is_named_and_its_time_is_a_gap_of_the_answer(
    command: Command, config: Path, tmp_path: Path
) -> None:
    place = tmp_path / "state" / "history"
    for number in range(5):
        PastCluster([PastEntry(number * 300_000, rows=ONE_TOPIC, left_out=number)]).write(place)
    damaged = place / HistoryTable.open(place).files()[2].path
    damaged.write_bytes(damaged.read_bytes()[:100])

    arguments = ("--since", "2026-03-01T00:00:00Z", "--until", "2026-03-01T00:20:00Z")
    done = command("simulate", "--config", config, *arguments, "--output", "json", "--exit-code")

    assert done.code == 3  # ten minutes say nothing of a retention of thirty
    document = json.loads(done.out)
    assert (document["topics"][0]["judged_ms"], document["topics"][0]["missed"]) == (0, [])
    (never,) = document["not_judged"]
    assert (never["entry"], never["owner"]) == ("orders", None)
    assert "no longer than the retention that is tried (30 minutes)" in never["why"]
    assert (document["entries"], document["gaps"]) == (
        4,
        [{"from": "2026-03-01T00:05:00.000Z", "until": "2026-03-01T00:15:00.000Z"}],
    )
    assert f"retentiond: {damaged} is left out: it has 100 bytes instead of " in done.err
    assert done.err.count("\n") == 1


@pytest.mark.spark
def test_a_change_of_a_topic_without_a_record_is_refused(
    command: Command, config: Path, tmp_path: Path
) -> None:
    PastCluster([PastEntry(0, rows=ONE_TOPIC), PastEntry(300_000, rows=ONE_TOPIC)]).write(
        tmp_path / "state" / "history"
    )

    done = command(
        *("simulate", "--config", config, "--since", "2026-03-01T00:00:00Z"),
        *("--set", "orders:retention.commitoffset.hours=1"),
        *("--set", "nope:retention.commitoffset.hours=1"),
    )

    assert (done.code, done.out) == (2, "")
    assert "--set nope: the history has no such topic at that time" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "written",
    [
        {"spark_checkpoint": "/checkpoints/lake", "max_age": "2h"},
        {"offsets": "https://lake.example/at", "ca": "/ca.pem", "max_age": "1d"},
        {
            "offsets": "/lake.json",
            "paths": {"orders": ["a.*", "[id=x].b"], "clicks": {"0": ["c"], "7": ["d", "e"]}},
            "max_age": "1d",
        },
        {"connect_offsets": {"topic": "offsets", "connector": "mirror", "cluster": "east"}},
        {
            "connect_offsets": {
                "topic": "offsets",
                "connector": "mirror",
                "kafka": {"bootstrap.servers": "west:9092"},
            }
        },
    ],
)
def test_an_external_reader_is_written_as_it_was_read(written: dict[str, Any]) -> None:
    reader = ExternalReader.model_validate({"name": "lake", **written})
    assert reader.written() == {"name": "lake", **written}


def test_an_external_reader_is_written_without_what_may_be_a_secret() -> None:
    kafka = {"bootstrap.servers": "west:9092", "sasl.password": "hunter2"}
    for place in (
        {"offsets": "https://lake.example/at", "headers": {"Authorization": "hunter2"}},
        {"connect_offsets": {"topic": "offsets", "connector": "mirror", "kafka": kafka}},
    ):
        written = ExternalReader.model_validate({"name": "lake", **place}).written()
        assert "hunter2" not in str(written)
        assert ExternalReader.model_validate(written).name == "lake"


def test_a_retention_of_nothing_is_no_number_of_days() -> None:
    assert (say_retention(0), say_retention(3_600_000)) == ("at once", "1h")


def held(topic: str, reason: str = "not_deletable", end: int | None = 5) -> dict[str, Any]:
    return partition_row(topic, high_watermark=end, verdict="hold", reason=reason)


def test_only_what_the_past_tells_is_written_as_known(config: Path, tmp_path: Path) -> None:
    known = replace(recommendation("orders", HOUR_MS), observed_ms=2 * HOUR_MS)
    assert known.judged_ms == HOUR_MS
    write(tmp_path / "tried.yaml", load(config), [known], (), ())
    (entry,) = load(tmp_path / "tried.yaml").entries
    assert not entry.policy.dry_run
    assert "on trial" not in (tmp_path / "tried.yaml").read_text()


def test_where_a_reader_would_have_missed_records_it_is_on_trial(
    config: Path, tmp_path: Path
) -> None:
    """The recorded retention offset may be above what had been written the retention before."""
    known = replace(recommendation("orders", HOUR_MS), observed_ms=2 * HOUR_MS)
    loss = Missed("billing", "orders", 0, 1_000, 40, 100, 60)
    doubted = replace(known, simulated=replace(known.simulated, missed=(loss,)))
    assert doubted.judged_ms == HOUR_MS
    write(tmp_path / "tried.yaml", load(config), [doubted], (), ())
    (entry,) = load(tmp_path / "tried.yaml").entries
    assert entry.policy.dry_run
    why = "under the recommended retention billing would have missed records"
    assert f"# on trial: {why}" in (tmp_path / "tried.yaml").read_text()
    (doubt,) = _not_judged([doubted], (), load(config)).doubts
    assert doubt.why.startswith(why)


@pytest.mark.spark
def test_what_is_written_leaves_out_what_is_never_deleted_from_and_says_what_is_short(
    command: Command, config: Path, tmp_path: Path
) -> None:
    """And while a topic is held it is not observed: nobody can have missed anything then, whoever
    went back."""
    config.write_text(config.read_text().replace("- name: orders", "- pattern: '.*'"))
    entries = [
        entry_of_hour(
            hour,
            rows=[
                held("waiting", "required_group_missing", 100),
                *([commit_row("billing", "waiting", 0, 100 - hour)] if hour in (0, 50) else []),
            ],
        )
        for hour in range(8 * 24)
    ]
    entries[-2].rows += [
        partition_row("orders", high_watermark=5),
        held("compacted"),
        held("compacted-once"),
        partition_row("__consumer_offsets", high_watermark=5),
    ]
    entries[-1].rows += [
        partition_row("orders", high_watermark=5),
        held("compacted", "offset_unreadable", None),
        partition_row("compacted-once", high_watermark=5),
        held("__consumer_offsets"),
        partition_row("seen-once", high_watermark=5),  # nothing can be recommended for it
    ]
    PastCluster(entries).write(tmp_path / "state" / "history")
    file = tmp_path / "tried.yaml"
    asked = ("recommend", "--config", config, "--since", "2026-03-01T00:00:00Z", "--output", "json")

    done = command(*asked, "--write-config", file)

    assert done.code == 0
    (waiting,) = (each for each in json.loads(done.out)["topics"] if each["topic"] == "waiting")
    assert not waiting["observed_enough"]
    assert waiting["retention_ms"] >= 191 * HOUR_MS
    # No simulation of a retention as long as the past could have deleted anything.
    assert waiting["judged_ms"] == 0
    not_judged = {each["entry"]: each["why"] for each in json.loads(done.out)["not_judged"]}
    of_an_hour = {"__consumer_offsets", "compacted", "compacted-once", "orders"}
    assert set(not_judged) == {*of_an_hour, "seen-once", "waiting"}
    assert "no longer than the recommended retention" in not_judged["waiting"]
    assert not_judged["seen-once"] == "it was seen in a single entry"
    assert [each.name for each in load(file).topics] == ["compacted-once", "orders", "waiting"]
    text = file.read_text()
    assert "# compacted: left out, because nothing is ever deleted from it\n" in text
    assert "# __consumer_offsets: left out, because nothing is ever deleted from it\n" in text
    assert "# observed for 1 hour only\n- name: orders\n" in text
    assert "# on trial: it was observed for 1 hour without gaps, which is no longer than" in text
    assert "# seen-once: left out: it was seen in a single entry\n" in text
    assert all(topic.dry_run for topic in load(file).topics)
    said = command(*asked[:-2]).out
    assert "not judged: waiting: " in said
    assert "not judged: seen-once: it was seen in a single entry" in said


def test_where_nothing_can_be_deleted_nothing_is_written(config: Path, tmp_path: Path) -> None:
    found = [recommendation("orders", HOUR_MS)]
    with pytest.raises(UsageError, match="not written: no topic here can ever be deleted from"):
        write(tmp_path / "other.yaml", load(config), found, {"orders"}, ())
    assert not (tmp_path / "other.yaml").exists()


def went_back() -> list[PastEntry]:
    """An entry an hour; billing goes back in the sixth, and stays."""
    read = [commit_row("billing", "orders", 0, 100)]
    back = [commit_row("billing", "orders", 0, 40)]
    return [
        entry_of_hour(
            hour,
            rows=[
                partition_row(
                    "orders",
                    high_watermark=100,
                    min_committed_offset=100 if hour < 5 else 40,
                    binding_group="billing",
                ),
                *(read if not hour else back if hour == 5 else ()),
            ],
        )
        for hour in range(8)
    ]


@pytest.mark.spark
def test_a_simulation_in_each_form_of_output_and_how_it_ends(  # noqa: PLR0917
    transcript: Transcript,
    command: Command,
    config: Path,
    tmp_path: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An entry whose clock was set back lies before the time that is asked about, and between
    entries that do not: it does not cut in two what the reader missed."""
    answer = KeptAnswer()
    monkeypatch.setattr("retentiond.cli.past.simulate.answered", answer)
    entries = went_back()
    entries[6].at_ms = HOUR_MS
    PastCluster(entries).write(tmp_path / "state" / "history")
    asked = ("simulate", "--config", config, "--since", "2026-03-01T02:00:00Z")

    assert transcript(*asked, "--exit-code").code == 3  # 60 records are missed
    document = transcript(*asked, "--output", "json").out
    golden.shown[json.loads(document)["until"]] = "(now)"
    (gap,) = set(re.findall(r"no entries for \d+ days", transcript.text))
    golden.shown[gap] = "no entries for many days"
    config.write_text(
        config.read_text() + "  - {name: unheard.of, retention.commitoffset.enable: true}\n"
    )
    answer.change(lambda found: replace(found, total=replace(found.total, missed=())))
    assert transcript(*asked, "--exit-code", "--min-observed", "6h").code == 3
    json_and_code = ("--exit-code", "--output", "json")
    done = command(*asked, *json_and_code)
    assert (done.code, json.loads(done.out)["not_judged"]) == (
        3,
        [{"entry": "unheard.of", "owner": None, "why": NO_SUCH_TOPIC}],
    )
    for judged, code in (("270m", 0), ("5h", 3)):  # of 5 hours, the first 30 minutes say nothing
        least = ("--topic", "orders", "--min-observed", judged)
        assert command(*asked, *json_and_code, *least).code == code
    transcript.check("past/simulate.txt")


def test_where_nothing_was_seen_twice_nothing_is_recommended(
    command: Command, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = (None, (), frozenset())
    monkeypatch.setattr("retentiond.cli.past.recommend.answered", lambda *_, **__: nothing)
    file = tmp_path / "tried.yaml"
    done = command("recommend", "--config", config, "--write-config", file)
    assert (done.code, done.out) == (2, "")
    assert "no enabled topic was seen in two entries" in done.err
    assert not file.exists()


@pytest.mark.parametrize(
    ("mean", "simulated", "is_said"), [(9, 10, True), (9, 9, False), (None, 10, False)]
)
def test_a_simulated_mean_above_the_mean_is_explained(
    mean: int | None, simulated: int, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = SimulatedTopic("orders", 1, 0, 0, False, mean, mean, simulated, 10, 0, ())
    say_kept_longer(Printer(), [topic])
    assert ("above MEAN on 1 topic: retentiond deleted" in capsys.readouterr().out) is is_said


def test_simulate_says_that_it_leaves_disk_pressure_out(
    command: Command, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retentiond.cli.past.simulate.answered", KeptAnswer())
    config.write_text(f"disk_pressure: {{below_free: 20%, until_free: 30%}}\n{config.read_text()}")
    PastCluster([PastEntry(0, rows=ONE_TOPIC)]).write(tmp_path / "state" / "history")

    asked = ("simulate", "--config", config, "--since", BEGIN.isoformat())

    assert "disk_pressure is left out" in command(*asked).err
    assert "disk_pressure" not in command(*asked, "--under-pressure").err
