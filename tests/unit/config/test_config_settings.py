"""Each setting: its default, what it accepts, and what it refuses."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from retentiond.config import Config, Http, Limits, Properties
from retentiond.config.config import MetricSettings, Tls
from retentiond.errors import ConfigError
from retentiond.state_places import daemon_state_dir
from tests.unit.config.files import HASH, MINIMAL, ONE_TOPIC, parsed

DAY_MS = 86_400_000
TOPIC_NAMES = ("a", "A.b_c-9", "123", "...", "true", "x" * 249)


def with_setting(setting: str) -> Config:
    topics = "" if "topics:" in setting else ONE_TOPIC
    return parsed(f"{MINIMAL}{topics}{setting}\n")


AS_WRITTEN = {
    ("spark.master", "spark: {master: '@'}"): [
        *("local", "local[4]", "local[*]", "local[*, 3]", "local-cluster[2, 1, 1024]", "yarn"),
        *("spark://a:7077,b:7077", "sc://a:15002/;token=x", "k8s://https://a:6443"),
    ],
    ("metrics.cluster", "metrics: {cluster: @}"): ["orders", "42"],
    ("history_path", "history: {path: '@'}"): [
        *("/var/lib/history", "s3://bucket/retentiond", "s3a://bucket/retentiond", "gs://bucket"),
        *("az://container/x", "abfss://container@account.dfs.core.windows.net/x"),
    ],
}
"""By path and how the setting is written, with what may stand there."""

READ = [
    ("metrics: {cluster: null}", "metrics.cluster", None),
    ("metrics: {cluster: ~}", "metrics.cluster", None),
    ("spark: {conf: {a: 2, b: no, c: 1.50}}", "spark.conf", {"a": "2", "b": "no", "c": "1.50"}),
    *((f"http: {{port: {port}}}", "http.port", port) for port in (0, 1, 9477, 65_535)),
    ("limits: {records_per_cycle: null}", "limits.records_per_cycle", None),
    ("limits: {records_per_cycle: 7}", "limits.records_per_cycle", 7),
    ("limits: {partitions_per_cycle: null}", "limits.partitions_per_cycle", None),
    ("limits: {partitions_per_cycle: 7}", "limits.partitions_per_cycle", 7),
    ("limits: {worthwhile: {bytes: 16KiB}}", "limits.worthwhile.minimum_bytes", 16_384),
    ("limits: {worthwhile: {bytes: 1 GiB}}", "limits.worthwhile.minimum_bytes", 1 << 30),
    ("limits: {worthwhile: {bytes: 500B}}", "limits.worthwhile.after_ms", 3_600_000),
    ("limits: {worthwhile: {after: 10m}}", "limits.worthwhile.minimum_bytes", 1 << 20),
    ("limits: {worthwhile: {after: 10m}}", "limits.worthwhile.after_ms", 600_000),
    ("schedule: {interval: 1000ms}", "schedule.interval_ms", 1_000),
    ("schedule: {interval: 1s}", "schedule.interval_ms", 1_000),
    ("schedule: {interval: '5m'}", "schedule.interval_ms", 300_000),
    ("schedule: {interval: 6h}", "schedule.interval_ms", 21_600_000),
    ("schedule: {interval: 365d}", "schedule.interval_ms", 365 * DAY_MS),
    ("audit: {}", "audit.keep_ms", 400 * DAY_MS),
    ("audit: {keep: 10000d}", "audit.keep_ms", 10_000 * DAY_MS),
    ("audit: {keep: null}", "audit.keep_ms", None),
    ("history: {interval: 1h}", "history.interval_ms", 3_600_000),
    ("history: {max_bytes: 5}", "history.max_bytes", 5),
    (
        "defaults: {groups: {required: [123, 007, on, true]}}",
        "defaults.groups.required",
        ("123", "007", "on", "true"),
    ),
    *((f"topics: [{{name: {name}}}]", "exact_names", {name}) for name in TOPIC_NAMES),
]


@pytest.mark.parametrize(
    ("setting", "place", "value"),
    [
        *READ,
        *(
            (setting.replace("@", written), place, written)
            for (place, setting), texts in AS_WRITTEN.items()
            for written in texts
        ),
    ],
)
def test_what_is_right_is_taken(setting: str, place: str, value: Any) -> None:
    assert attrgetter(place)(with_setting(setting)) == value


NO_HASHES = ["open sesame", "hunter2", HASH[:-1], f"{HASH}a", HASH.replace("$04$", "$03$")]

REFUSED = {
    ("spark.master", "spark: {master: '@'}"): [
        *("foo", "Local[2]", "local[]", "local[two]", "localhost:7077", "spark://", "http://a")
    ],
    ("dry_run", "dry_run: @"): [
        *("0", "1", "no", "off", "n", "False", "FALSE", "'false'", "'yes'", "null", "", "[]", "{}")
    ],
    ("http.port", "http: {port: @}"): ["-1", "65536", "1.0", "true", "9_477", "٣", "9" * 5_000],
    ("http.basic_auth.prometheus", "http: {basic_auth: {prometheus: @}}"): [
        *(*NO_HASHES, "''", "null")
    ],
    ("limits.records_per_cycle", "limits: {records_per_cycle: @}"): ["0", "-1", "'null'", "none"],
    ("limits.partitions_per_cycle", "limits: {partitions_per_cycle: @}"): ["0", "-1", "'null'"],
    ("limits.worthwhile.bytes", "limits: {worthwhile: {bytes: @}}"): [
        *("1048576", "1MB", "1.5MiB", "0MiB", "-1KiB", "8EiB", "MiB", "null")
    ],
    ("limits.worthwhile.after", "limits: {worthwhile: {after: @}}"): ["0s", "3600", "null"],
    ("schedule.interval", "schedule: {interval: @}"): [
        *("300", "'300'", "5 m", "5M", "m", "1h30m", "1.5h", "-5m", "05m", "366d", "999ms", "0s"),
        "5w",
    ],
    ("topics[0].name", "topics: [{name: @}]"): [
        *("''", ".", "..", "a/b", "a b", "ä", "x" * 250, "'a\n\n'", "null")
    ],
}
"""By path and how the setting is written. ``malformed`` has the sentences."""


@pytest.mark.parametrize(
    ("path", "setting", "written"),
    [(*place, written) for place, texts in REFUSED.items() for written in texts],
    ids=lambda text: text[:40],
)
def test_what_is_wrong_is_refused(path: str, setting: str, written: str) -> None:
    """Nothing that may be a secret is shown."""
    with pytest.raises(ConfigError) as caught:
        with_setting(setting.replace("@", written))
    assert caught.value.path == path
    assert written not in NO_HASHES or written not in str(caught.value)


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


def test_no_rendering_of_a_configuration_shows_a_property() -> None:
    config = parsed(
        "kafka: {bootstrap.servers: a, sasl.password: hunter2}\n"
        f"spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: hunter3}}}}\n{ONE_TOPIC}"
    )
    renderings = [repr(config), str(config), f"{config.kafka}", repr(config.spark)]
    for rendering in (*renderings, config.model_dump_json(), str(config.model_dump())):
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
