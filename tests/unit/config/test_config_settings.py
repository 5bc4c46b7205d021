"""Each setting: its default, what it accepts, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from retentiond.config import Config, Http, Limits, Properties
from retentiond.config.config import MetricSettings, Tls
from retentiond.errors import ConfigError
from retentiond.state_places import daemon_state_dir
from tests.unit.config.files import HASH, MINIMAL, ONE_TOPIC, parsed


def with_setting(setting: str) -> Config:
    return parsed(f"{MINIMAL}{ONE_TOPIC}{setting}\n")


def test_what_is_not_set_has_its_documented_default() -> None:
    config = parsed(MINIMAL + ONE_TOPIC)
    assert config.schedule.interval_ms == 5 * 60 * 1000
    assert config.dry_run is True
    assert config.state_dir == daemon_state_dir()
    assert config.http == Http(host="0.0.0.0", port=9477, tls=None, basic_auth=None)
    assert config.spark.master == "local[2]"
    assert config.spark.conf == {}
    assert config.limits == Limits(
        records_per_cycle=None, partitions_per_cycle=None, settle_cycles=1
    )
    assert config.metrics == MetricSettings(cluster=None, partitions=True)
    assert config.audit.keep_ms == 400 * 86_400_000
    assert config.history == with_setting("history: {path: null}").history
    assert (config.history.enabled, config.history.max_bytes) == (True, None)
    assert (config.history.interval_ms, config.history.keep_ms) == (5 * 60_000, 30 * 86_400_000)
    assert config.history_path == f"{config.state_dir}/history"


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[*, 3]", "local-cluster[2, 1, 1024]", "yarn"),
        *("spark://a:7077,b:7077", "sc://a:15002/;token=x", "k8s://https://a:6443"),
    ],
)
def test_a_master_is_one_that_spark_knows(master: str) -> None:
    assert with_setting(f"spark: {{master: '{master}'}}").spark.master == master


@pytest.mark.parametrize(
    "master", ["foo", "Local[2]", "local[]", "local[two]", "localhost:7077", "spark://", "http://a"]
)
def test_any_other_master_is_refused_and_not_shown(master: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_setting(f"spark: {{master: '{master}'}}")
    assert str(caught.value) == (
        "spark.master: expected local[N], spark://…, sc://… (Spark Connect) or k8s://…"
    )


@pytest.mark.parametrize("character", ["%", "[", "]", "^", "|", "\\"])
@pytest.mark.parametrize("setting", ["state_dir", "history.path"])
def test_a_folder_that_deltalake_would_misread_is_refused(setting: str, character: str) -> None:
    name = json.dumps(f"/srv/a{character}41b/c")
    is_state = setting == "state_dir"
    written = f"state_dir: {name}" if is_state else f"history: {{path: {name}}}"
    with pytest.raises(ConfigError) as caught:
        with_setting(written)
    assert caught.value.path == setting
    assert f"has the character {character!r}" in str(caught.value)
    if is_state:  # which is fine without a history, or with one elsewhere
        with_setting(f"{written}\nhistory: {{enabled: false}}")
        with_setting(f"{written}\nhistory: {{path: /srv/history}}")


def test_a_link_to_such_a_folder_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a[1]")
    with pytest.raises(ConfigError, match=r"^state_dir: "):
        with_setting(f"state_dir: {tmp_path / 'link'}")


@pytest.mark.parametrize(
    ("written", "cluster"), [("orders", "orders"), ("42", "42"), ("null", None), ("~", None)]
)
def test_a_cluster_has_a_name_or_none(written: str, cluster: str | None) -> None:
    assert with_setting(f"metrics: {{cluster: {written}}}").metrics.cluster == cluster


def test_kafka_properties_are_taken_literally() -> None:
    config = parsed(
        "kafka: {bootstrap.servers: 'a:1,b:2', request.timeout.ms: 0500, "
        "enable.x: on, y: 1:30, z: true, empty: '', 007: seven}\n" + ONE_TOPIC
    )
    assert config.kafka == {
        "bootstrap.servers": "a:1,b:2",
        "request.timeout.ms": "0500",
        "enable.x": "on",
        "y": "1:30",
        "z": "true",
        "empty": "",
        "007": "seven",
    }


def test_spark_properties_are_texts_however_they_are_written() -> None:
    conf = with_setting("spark: {conf: {spark.a: 2, spark.b: false, spark.c: 1.50}}").spark.conf
    assert conf == {"spark.a": "2", "spark.b": "false", "spark.c": "1.50"}


def test_no_rendering_of_a_configuration_shows_a_property() -> None:
    config = parsed(
        "kafka: {bootstrap.servers: a, sasl.password: hunter2}\n"
        f"spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: hunter3}}}}\n{ONE_TOPIC}"
    )
    for rendering in (
        repr(config),
        str(config),
        f"{config.kafka}",
        repr(config.spark),
        config.model_dump_json(),
        str(config.model_dump()),
    ):
        assert "hunter" not in rendering
    assert repr(config.kafka) == "Properties(bootstrap.servers=…, sasl.password=…)"
    assert config.kafka["sasl.password"] == "hunter2"


def test_nothing_can_be_changed_after_reading() -> None:
    config = parsed(MINIMAL + ONE_TOPIC)
    with pytest.raises(ValidationError, match="frozen"):
        config.dry_run = False
    with pytest.raises(ValidationError, match="frozen"):
        config.http.port = 1
    with pytest.raises(TypeError):
        config.kafka["a"] = "b"  # type: ignore[index] # that it is refused is the point
    assert isinstance(config.kafka, Properties)
    assert isinstance(config.topics, tuple)


@pytest.mark.parametrize(
    "written",
    ["0", "1", "no", "off", "n", "False", "FALSE", "'false'", "'yes'", "null", "", "[]", "{}"],
)
def test_dry_run_refuses_all_else(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^dry_run: expected true or false, not "):
        with_setting(f"dry_run: {written}")


@pytest.mark.parametrize("port", [0, 1, 9477, 65_535])
def test_a_port_in_range_is_taken(port: int) -> None:
    assert with_setting(f"http: {{port: {port}}}").http.port == port


@pytest.mark.parametrize("written", ["-1", "65536", "1.0", "true", "9_477", "٣", "9" * 5_000])
def test_a_port_that_is_no_port_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^http\.port: expected "):
        with_setting(f"http: {{port: {written}}}")


def test_a_certificate_and_users_are_taken_and_no_rendering_shows_a_hash() -> None:
    config = with_setting(
        "http: {tls: {certificate: tls.crt, key: /run/tls.key}, "
        f"basic_auth: {{prometheus: {HASH}, grafana: '{HASH.replace('2b', '2y')}'}}}}"
    )
    http = config.http
    assert http.tls == Tls(certificate=Path("tls.crt"), key=Path("/run/tls.key"))
    assert http.basic_auth is not None
    assert http.basic_auth["prometheus"] == HASH
    assert set(http.basic_auth) == {"prometheus", "grafana"}
    for rendering in (repr(config), str(http), config.model_dump_json(), str(config.model_dump())):
        assert HASH not in rendering


@pytest.mark.parametrize(
    "written",
    ["open sesame", "hunter2", HASH[:-1], f"{HASH}a", HASH.replace("$04$", "$03$"), "''", "null"],
)
def test_what_is_no_hash_is_refused_and_not_shown(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^http\.basic_auth\.prometheus: expected a ") as refused:
        with_setting(f"http: {{basic_auth: {{prometheus: {written}}}}}")
    assert len(written) < 5 or written not in str(refused.value)


@pytest.mark.parametrize("limit", ["records_per_cycle", "partitions_per_cycle"])
def test_a_limit_is_null_or_at_least_one(limit: str) -> None:
    assert getattr(with_setting(f"limits: {{{limit}: null}}").limits, limit) is None
    assert getattr(with_setting(f"limits: {{{limit}: 7}}").limits, limit) == 7
    for written in ("0", "-1", "'null'", "none"):
        with pytest.raises(ConfigError, match=rf"^limits\.{limit}: expected "):
            with_setting(f"limits: {{{limit}: {written}}}")


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("1000ms", 1_000),
        ("1s", 1_000),
        ("5m", 300_000),
        ("6h", 21_600_000),
        ("7d", 604_800_000),
        ("'5m'", 300_000),
        ("365d", 31_536_000_000),
    ],
)
def test_an_interval_is_a_number_with_its_unit(written: str, ms: int) -> None:
    assert with_setting(f"schedule: {{interval: {written}}}").schedule.interval_ms == ms


@pytest.mark.parametrize(
    "written",
    ["300", "'300'", "5 m", "5M", "m", "1h30m", "1.5h", "-5m", "05m", "366d", "999ms", "0s", "5w"],
)
def test_an_interval_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^schedule\.interval: expected a duration "):
        with_setting(f"schedule: {{interval: {written}}}")


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "123", "...", "true", "x" * 249])
def test_a_topic_name_that_kafka_allows_is_taken(name: str) -> None:
    assert parsed(f"{MINIMAL}topics: [{{name: {name}}}]").topics[0].name == name


@pytest.mark.parametrize("name", ["''", ".", "..", "a/b", "a b", "ä", "x" * 250, "'a\n\n'", "null"])
def test_a_topic_name_that_kafka_forbids_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^topics\[0\]\.name: expected a t"):
        parsed(f"{MINIMAL}topics: [{{name: {name}}}]")


def test_a_group_may_be_a_number_or_a_word_of_yaml_without_quotes() -> None:
    config = parsed(f"{MINIMAL}topics: [{{name: a, groups: {{required: [123, 007, on, true]}}}}]")
    groups = config.topics[0].groups
    assert groups is not None
    assert groups.required == ("123", "007", "on", "true")


def test_a_setting_is_read_from_plain_values_too() -> None:
    document = {
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "dry_run": False,
        "schedule": {"interval": "10s"},
        "topics": [{"name": "orders", "retention.commitoffset.ms": 0}],
    }
    config = Config.model_validate(document)
    assert config.dry_run is False
    assert config.schedule.interval_ms == 10_000
    assert config.topics[0].ms == 0
    with pytest.raises(ValidationError, match="expected true or false, not 0"):
        Config.model_validate(document | {"dry_run": 0})
    with pytest.raises(ValidationError, match="expected a whole number, not True"):
        Config.model_validate(document | {"http": {"port": True}})


@pytest.mark.parametrize(
    ("written", "keep_ms"),
    [
        ("{}", 400 * 86_400_000),
        ("{keep: 2h}", 7_200_000),
        ("{keep: 10000d}", 864_000_000_000),
        ("{keep: null}", None),
    ],
)
def test_the_audit_log_is_kept_for_four_hundred_days_or_as_long_as_is_said(
    written: str, keep_ms: int | None
) -> None:
    assert with_setting(f"audit: {written}").audit.keep_ms == keep_ms


@pytest.mark.parametrize(
    "place",
    [
        "/var/lib/history",
        "s3://bucket/retentiond",
        "s3a://bucket/retentiond",
        "gs://bucket",
        "az://container/x",
        "abfss://container@account.dfs.core.windows.net/x",
    ],
)
def test_the_history_may_lie_in_a_folder_or_in_an_object_store(place: str) -> None:
    config = with_setting(f"history: {{path: '{place}', interval: 1h, keep: 7d, max_bytes: 5}}")
    assert config.history_path == place
    assert (config.history.interval_ms, config.history.max_bytes) == (3_600_000, 5)
