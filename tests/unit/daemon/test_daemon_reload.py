"""SIGHUP: a good file is adopted, a bad one changes nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retentiond.config import Config, PolicyUnreadable, TopicPolicy, load
from retentiond.daemon.reload import SETTLED_S
from retentiond.errors import ConfigError, KafkaUnavailable, OtherCluster, StateReplaced
from retentiond.tell import logs
from retentiond.tell.report import CycleReport
from tests.support.builders.daemons import Bench, live, settings
from tests.support.builders.reports import report, row
from tests.support.waiting import eventually


def main_file(folder: Path, policies: str) -> Path:
    path = folder / "retentiond.yaml"
    path.write_text(
        "kafka: {bootstrap.servers: localhost:9092}\nhistory: {enabled: false}\n"
        f"http: {{host: 127.0.0.1, port: 0}}\nstate_dir: /nowhere\npolicies: {policies}\n"
    )
    return path


OTHER_TOPIC = settings(topics=[{"name": "payments", "retention.commitoffset.enable": True}])
OTHER_KAFKA = settings(kafka={"bootstrap.servers": "elsewhere:9092"})


def test_a_good_file_is_in_force_from_the_next_cycle_on_with_the_clients_of_its_cluster() -> None:
    def play(bench: Bench) -> None:
        bench.tick()
        bench.reload(OTHER_TOPIC)
        bench.tick()
        assert not bench.engines[0].closed

    bench = live(play)
    (engine,) = bench.engines
    assert [config.topics[0].name for config in engine.configs_used] == ["orders", "payments"]
    assert bench.events(logs.CONFIG_NEEDS_RESTART) == []


def test_what_was_reloaded_is_one_line(tmp_path: Path) -> None:
    main = main_file(tmp_path, "'*.team'")

    def play(bench: Bench) -> None:
        for names in ("ab", "bc"):
            for file in tmp_path.glob("*.team"):
                file.unlink()
            for name in names:
                text = f"owner: {name}\ntopics: [{{name: {name}1}}, {{name: {name}2}}]\n"
                (tmp_path / f"{name}.team").write_text(text)
            bench.reload(load(main, {}))

    assert live(play).events(logs.CONFIG_RELOADED) == [
        {
            "event": "retentiond.config_reloaded",
            "log_level": "info",
            "dry_run": True,
            "files": 3,
            "entries": 4,
            "files_added": added,
            "files_removed": removed,
            "files_readable_again": [],
        }
        for added, removed in ((["a.team", "b.team"], []), (["c.team"], ["a.team"]))
    ]


def test_with_watch_changed_files_are_in_force_without_a_signal() -> None:
    watching = settings(reload={"watch": True})

    def play(bench: Bench) -> None:
        bench.tick()
        bench.file = OTHER_TOPIC
        bench.tick()
        bench.later_s += SETTLED_S
        bench.tick()
        bench.file = ConfigError("a bad file that nobody looks at any more")
        bench.later_s += 60
        bench.tick()

    bench = live(play, watching)
    assert [used.topics[0].name for used in bench.engines[0].configs_used] == [
        *("orders", "orders"),
        *("payments", "payments"),
    ]
    assert bench.events(logs.CONFIG_REFUSED) == []


def test_a_fenced_file_that_can_not_be_used_is_told_in_every_place(tmp_path: Path) -> None:
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    (tmp_path / "pay.yaml").write_text("owner: payments\ntopics: [{name: pay, oops: 1}]\n")
    series = 'retentiond_policy_unreadable{file="pay.yaml",owner="payments"} 1.0'

    def play(bench: Bench) -> None:
        bench.tick(report)
        assert series in bench.get("/metrics").text
        assert "pay.yaml: topics[0].oops" in bench.get("/readyz").text
        assert bench.get("/readyz").status_code == 200
        assert "pay.yaml: topics[0].oops" in bench.get("/").text
        (tmp_path / "pay.yaml").write_text("owner: payments\ntopics: [{name: pay}]\n")
        bench.reload(load(main, {}))
        for path in ("/metrics", "/readyz", "/"):
            assert "oops" not in bench.get(path).text
        assert "retentiond_policy_unreadable{" not in bench.get("/metrics").text
        (tmp_path / "pay.yaml").unlink()
        bench.reload(load(main, {}))

    ended = live(play, load(main, {}))
    again = [each["files_readable_again"] for each in ended.events(logs.CONFIG_RELOADED)]
    assert again == [["pay.yaml"], []]
    told = ended.events(logs.POLICY_UNREADABLE)
    assert [(each["file"], each["owner"], each["log_level"]) for each in told] == [
        ("pay.yaml", "payments", "error"),
        ("pay.yaml", "", "error"),
    ]
    assert "No such file or directory" in told[1]["error"]


def test_a_fenced_file_is_held_although_the_rest_is_refused(tmp_path: Path) -> None:
    """Somebody else's mistake must not keep a bad file's topics going."""
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}, web.yaml]")
    pay, web = tmp_path / "pay.yaml", tmp_path / "web.yaml"
    good = "retention.commitoffset.enable: true, groups_visible: assumed}]\n"
    pay.write_text(f"owner: payments\ntopics: [{{name: pay, {good}")
    web.write_text(f"owner: web\ntopics: [{{name: web, {good}")
    in_force = load(main, {})
    pay.write_text("owner: payments\ntopics: 3\n")
    web.write_text("owner: web\ntopics: 3\n")
    with pytest.raises(ConfigError) as refused:
        load(main, {})

    def play(bench: Bench) -> None:
        bench.tick()
        bench.reload(refused.value)
        bench.tick()
        assert "pay.yaml: topics" in bench.get("/readyz").text
        pay.write_text(f"owner: payments\ntopics: [{{name: pay, {good}")
        bench.reload(refused.value)
        bench.tick()
        assert "pay.yaml" not in bench.get("/readyz").text

    bench = live(play, in_force)
    before, bad, good_again = bench.engines[0].configs_used
    assert [isinstance(before.policy_for(each), TopicPolicy) for each in ("pay", "web")] == [
        True
    ] * 2
    assert isinstance(bad.policy_for("pay"), PolicyUnreadable)
    assert bad.policy_for("web") == before.policy_for("web")
    assert good_again.policy_for("pay") == before.policy_for("pay")
    assert [each["file"] for each in bench.events(logs.POLICY_UNREADABLE)] == ["pay.yaml"]


def names_query(*names: str, more: str = "") -> str:
    """The policy file of a team whose Spark queries have these names."""
    readers = ", ".join(f"{{name: {name}, spark_checkpoint: /{name}}}" for name in names)
    enabled = "retention.commitoffset.enable: true"
    return (
        f"owner: payments\ntopics: [{{name: pay, {enabled}, groups: {{external: [{readers}]}}}}]\n"
        f"{more}"
    )


def queries_of(config: Config) -> set[str]:
    return {query.name for query in config.spark_queries}


def test_the_queries_of_a_fenced_file_still_count_once_it_is_gone(tmp_path: Path) -> None:
    """They read topics of others, also those that they begin to read meanwhile."""
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    pay = tmp_path / "pay.yaml"
    pay.write_text(names_query("lake"))

    def play(bench: Bench) -> None:
        bench.tick()
        pay.unlink()
        for _ in range(2):
            bench.reload(load(main, {}))
            bench.tick()
        pay.write_text(names_query("etl"))
        bench.reload(load(main, {}))
        bench.tick()

    before, gone, still_gone, mended = live(play, load(main, {})).engines[0].configs_used
    assert isinstance(gone.policy_for("pay"), PolicyUnreadable)
    assert queries_of(before) == queries_of(gone) == queries_of(still_gone) == {"lake"}
    assert queries_of(mended) == {"etl"}


def test_a_query_that_a_bad_file_names_only_now_counts_although_the_rest_is_refused(
    tmp_path: Path,
) -> None:
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    pay = tmp_path / "pay.yaml"
    pay.write_text(names_query("lake"))
    in_force = load(main, {})

    def play(bench: Bench) -> None:
        bench.tick()
        for names in (("lake",), ("lake", "etl")):
            pay.write_text(names_query(*names, more="oops: 1\n"))
            bench.reload(ConfigError("somebody else's mistake", file="web.yaml"))
            bench.tick()
        pay.unlink()  # whether the others' mistake is there still or not
        bench.reload(ConfigError("somebody else's mistake", file="web.yaml"))
        bench.tick()
        bench.reload(load(main, {}))
        bench.tick()

    before, bad, still_bad, *gone = live(play, in_force).engines[0].configs_used
    assert isinstance(bad.policy_for("pay"), PolicyUnreadable)
    assert queries_of(before) == queries_of(bad) == {"lake"}
    assert queries_of(still_bad) == {"lake", "etl"}
    assert [*map(queries_of, gone)] == [{"lake", "etl"}] * len(gone) != []


def test_a_query_counts_by_both_checkpoints_where_a_bad_file_moves_it(tmp_path: Path) -> None:
    """Nobody knows which of the two it reads on from."""
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    pay = tmp_path / "pay.yaml"
    pay.write_text(names_query("lake"))
    in_force = load(main, {})

    def play(bench: Bench) -> None:
        pay.write_text(names_query("lake", more="oops: 1\n").replace("/lake", "/moved"))
        bench.reload(load(main, {}))
        bench.tick()

    (used,) = live(play, in_force).engines[0].configs_used
    assert {str(query.spark_checkpoint) for query in used.spark_queries} == {"/lake", "/moved"}


def test_a_new_interval_counts_from_now_on_for_the_schedule_and_for_readiness() -> None:
    def play(bench: Bench) -> None:
        bench.tick(report)
        bench.later_s = 600
        assert bench.get("/readyz").status_code == 503
        bench.scheduler.next_run_time = None
        bench.reload(settings(schedule={"interval": "300s"}))
        assert bench.scheduler.interval_s == 300
        assert bench.scheduler.next_run_time is not None
        assert bench.get("/readyz").status_code == 200

    live(play)


def test_what_is_shown_follows_a_reload() -> None:
    def play(bench: Bench) -> None:
        bench.tick(lambda: report([row("orders")]))
        assert "retentiond_high_watermark{" in bench.get("/metrics").text
        bench.reload(
            settings(schedule={"interval": "6h"}, metrics={"cluster": "eu", "partitions": False})
        )
        bench.tick()
        shown = bench.get("/metrics").text
        assert "\nretentiond_schedule_interval_seconds 21600.0\n" in shown
        assert 'kafka_cluster="eu"' in shown
        assert "retentiond_log_records{" in shown
        assert "retentiond_high_watermark{" not in shown

    live(play)


def test_a_bad_file_is_refused_with_its_error_and_the_old_one_stays_until_it_is_mended() -> None:
    def play(bench: Bench) -> None:
        bench.reload(ConfigError("expected 1s or more", path="schedule.interval", file="r.yaml"))
        bench.tick()
        assert bench.scheduler.interval_s == 60
        bench.reload(OTHER_TOPIC)
        bench.tick()

    bench = live(play)
    assert bench.events(logs.CONFIG_REFUSED) == [
        {
            "event": "retentiond.config_refused",
            "log_level": "error",
            "error": "r.yaml: schedule.interval: expected 1s or more",
        }
    ]
    assert bench.engines[0].configs_used == [settings(), OTHER_TOPIC]


def test_a_file_given_while_the_state_was_gone_is_adopted_once_it_is_back() -> None:
    def gone() -> CycleReport:
        raise StateReplaced("groups.db was removed")

    def play(bench: Bench) -> None:
        bench.tick(gone)
        bench.reload(OTHER_TOPIC)
        bench.tick(report)
        bench.tick()

    assert live(play).engines[0].configs_used[-1] == OTHER_TOPIC


def test_another_cluster_gets_new_clients_and_the_old_ones_are_closed() -> None:
    def play(bench: Bench) -> None:
        bench.reload(OTHER_KAFKA)
        bench.tick()
        assert bench.engines[0].closed
        assert not bench.engines[1].closed

    bench = live(play)
    assert [len(engine.configs_used) for engine in bench.engines] == [0, 1]
    assert bench.engines[1].closed


def test_clients_that_cannot_be_made_refuse_the_whole_file_and_the_old_ones_go_on() -> None:
    def play(bench: Bench) -> None:
        bench.refusal = ConfigError("there is no such file", path="kafka.ssl.ca.location")
        bench.reload(
            settings(
                kafka={"bootstrap.servers": "elsewhere:9092"},
                history={"enabled": False, "keep": "7d"},
                schedule={"interval": "300s"},
            )
        )
        bench.tick()
        bench.tick()
        assert not bench.engines[0].closed
        assert bench.daemon._history.config.history == settings().history
        assert bench.scheduler.interval_s == 60

    bench = live(play)
    assert len(bench.engines[0].configs_used) == 2
    assert [line["error"] for line in bench.events(logs.CONFIG_REFUSED)] == [
        "kafka.ssl.ca.location: there is no such file"
    ]


def test_after_clients_that_cannot_be_made_the_file_of_the_last_cycle_is_in_force() -> None:
    """That one, and none before it, although it came while other clients could not be made."""

    def play(bench: Bench) -> None:
        bench.refusal = ConfigError("there is no such file", path="kafka.ssl.ca.location")
        bench.reload(OTHER_KAFKA)
        bench.while_made = lambda: bench.reload(OTHER_TOPIC)
        bench.tick()
        bench.while_made = lambda: None
        bench.reload(OTHER_KAFKA)
        bench.tick()

    assert live(play).engines[0].configs_used == [OTHER_TOPIC, OTHER_TOPIC]


def test_what_only_a_start_reads_stays_as_it_was_everywhere_and_is_named(tmp_path: Path) -> None:
    """The history is in the state directory, too."""

    def play(bench: Bench) -> None:
        http = {"host": "127.0.0.1", "port": 1}
        moved = settings(tmp_path / "elsewhere", dry_run=False, http=http)
        for _ in range(2):
            bench.reload(moved)
            bench.tick()
        assert bench.daemon._history.config.state_dir == settings().state_dir
        assert not bench.engines[0].config.dry_run

    told = {
        "event": "retentiond.config_needs_restart",
        "log_level": "warning",
        "settings": ["state_dir", "http"],
    }
    assert live(play).events(logs.CONFIG_NEEDS_RESTART) == [told, told]


def test_what_is_reloaded_during_a_cycle_is_in_force_soon_after_it() -> None:
    """The scheduler leaves out what is due while a cycle runs."""

    def play(bench: Bench) -> None:
        def cycle() -> CycleReport:
            bench.reload(OTHER_TOPIC)
            bench.scheduler.next_run_time = datetime.now(UTC) + timedelta(minutes=1)
            return report()

        bench.tick(cycle)
        due = bench.scheduler.next_run_time
        assert due is not None
        assert due < datetime.now(UTC) + timedelta(seconds=10)

    live(play)


def test_a_reload_while_another_one_is_adopted_is_in_force_at_once() -> None:
    last = settings(kafka={"bootstrap.servers": "elsewhere:9092"}, spark={"master": "local[1]"})

    def play(bench: Bench) -> None:
        bench.reload(OTHER_KAFKA)
        bench.while_made = lambda: bench.reload(last)
        bench.tick()
        assert bench.engines[1].config == OTHER_KAFKA
        assert bench.engines[1].in_force() == last

    live(play)


def test_a_reload_while_another_one_is_refused_is_not_lost() -> None:
    def play(bench: Bench) -> None:
        bench.reload(OTHER_KAFKA)
        bench.refusal = ConfigError("there is no such file", path="kafka.ssl.ca.location")
        bench.while_made = lambda: bench.reload(OTHER_TOPIC)
        bench.tick()
        bench.tick()

    assert live(play).engines[0].configs_used[-1] == OTHER_TOPIC


def test_a_reload_does_not_settle_that_two_clusters_answered() -> None:
    def two_clusters() -> CycleReport:
        raise OtherCluster("two clusters answer")

    def play(bench: Bench) -> None:
        bench.tick(two_clusters)
        bench.reload(OTHER_KAFKA)
        bench.tick(two_clusters)
        assert "two clusters answer" in bench.get("/readyz").text

    assert len(live(play).engines) == 1


def test_a_reload_ends_no_back_off_report() -> None:
    """The operator has fixed something else: the cluster is still away, which was said."""

    def no_kafka() -> CycleReport:
        raise KafkaUnavailable("away")

    def play(bench: Bench) -> None:
        bench.tick(no_kafka)
        bench.reload(OTHER_TOPIC)
        bench.tick(no_kafka)

    assert len(live(play).events(logs.CYCLE_FAILED)) == 1


def test_a_fence_s_hold_stays_when_the_clients_of_a_new_configuration_cannot_be_made(
    tmp_path: Path,
) -> None:
    """One SIGHUP brings a bad fenced file, and a broker's setting that librdkafka refuses."""
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    pay = tmp_path / "pay.yaml"
    pay.write_text("owner: payments\ntopics: [{name: pay}]\n")
    in_force = load(main, {})
    pay.write_text("owner: payments\ntopics: 3\n")
    main.write_text(main.read_text().replace("localhost:9092", "elsewhere:9092"))

    def play(bench: Bench) -> None:
        bench.refusal = ConfigError("no", path="kafka.socket.timeout.ms")
        bench.reload(load(main, {}))
        bench.tick()
        bench.tick()
        assert "pay.yaml: topics" in bench.get("/readyz").text

    used = live(play, in_force).engines[0].configs_used
    assert len(used) == 2
    for config in used:
        assert isinstance(config.policy_for("pay"), PolicyUnreadable)
        assert config.kafka == in_force.kafka


def test_a_refused_configuration_is_told_by_each_surface_until_one_is_taken() -> None:
    error = ConfigError("unknown setting", path="topics[0].x", file="p.d/a.yaml", owner="logistics")
    series = 'retentiond_configuration_refused{file="p.d/a.yaml",owner="logistics"} 1.0'
    said = r"configuration refused since \d\d:\d\d: p.d/a.yaml: topics\[0\].x: unknown setting"

    def play(bench: Bench) -> None:
        bench.tick()
        assert "refused" not in bench.get("/readyz").text
        assert "retentiond_configuration_refused{" not in bench.get("/metrics").text
        bench.reload(error)
        assert bench.get("/readyz").status_code == 200
        assert re.search(said + r" \(owner logistics\)", bench.get("/readyz").text)
        assert re.search(said, bench.get("/").text)
        assert series in bench.get("/metrics").text
        bench.file = ConfigError("something else, that nobody has read yet")
        bench.later_s += SETTLED_S
        eventually(lambda: "its files have changed since" in bench.get("/readyz").text)
        assert "topics[0].x" not in bench.get("/readyz").text
        bench.reload(ConfigError("bad", file="r.yaml"))
        assert "r.yaml: bad" in bench.get("/readyz").text
        assert 'refused{file="r.yaml",owner=""} 1.0' in bench.get("/metrics").text
        bench.reload(OTHER_TOPIC)
        for path in ("/readyz", "/", "/metrics"):
            assert "refused since" not in bench.get(path).text
        assert "retentiond_configuration_refused{" not in bench.get("/metrics").text

    live(play)


def test_a_fenced_file_that_is_mended_is_not_blamed_while_the_rest_is_refused(
    tmp_path: Path,
) -> None:
    main = main_file(tmp_path, "[{file: pay.yaml, topics: ['pay.*']}]")
    pay = tmp_path / "pay.yaml"
    pay.write_text("owner: payments\ntopics: 3\n")

    def play(bench: Bench) -> None:
        assert "pay.yaml: topics: expected" in bench.get("/readyz").text
        pay.write_text("owner: payments\ntopics: [{name: pay}]\n")
        bench.reload(ConfigError("bad", file="r.yaml"))
        assert "pay.yaml: topics: expected" not in bench.get("/readyz").text
        assert "pay.yaml: it can be used again" in bench.get("/readyz").text
        bench.tick()

    (used,) = live(play, load(main, {})).engines[0].configs_used
    assert isinstance(used.policy_for("pay"), PolicyUnreadable)
