"""What is read out of the output of those that the bench compares with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.bench import franz, groups_command, klag, klag_build
from devkit.bench.layouts import Layout

LAYOUT = Layout("S", topics=2, partitions=1, groups=2, topics_each=1)

DESCRIBED = """
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG     CONSUMER-ID
s-group-0000    s.topic-0000    0          64              80              16      -

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG     CONSUMER-ID
s-group-0001    s.topic-0001    0          80              80              0       -
s-group-0001    s.topic-0001    1          -               80              -       -
"""

REFRESHED = (
    "2026-11-22T02:11:39.282987Z DEBUG run{cluster=bench}:collect_once{cluster=bench}:"
    " klag_exporter::cluster::manager: Collection cycle completed"
    " cluster=bench elapsed_ms=1234 timestamp_cache_size=1000\n"
)

LAGS = """\
# HELP kafka_consumergroup_group_sum_lag Sum of offset lag
# TYPE kafka_consumergroup_group_sum_lag gauge
kafka_consumergroup_group_sum_lag{cluster_name="bench",group="s-group-0000"} 16
kafka_consumergroup_group_sum_lag{cluster_name="bench",group="s-group-0001"} 1
# TYPE kafka_consumergroup_group_max_lag gauge
kafka_consumergroup_group_max_lag{cluster_name="bench",group="s-group-0000"} 16
"""


def test_the_offsets_are_read_out_of_the_tables_of_kafka_consumer_groups() -> None:
    assert groups_command.offsets(DESCRIBED) == {
        ("s-group-0000", "s.topic-0000", 0): 64,
        ("s-group-0001", "s.topic-0001", 0): 80,
    }


def test_kafka_consumer_groups_describes_all_groups() -> None:
    assert groups_command.command("host:9092") == [
        *("--bootstrap-server", "host:9092", "--describe", "--all-groups"),
        *("--timeout", "60000"),
    ]


def test_the_pollers_commits_are_read_out_of_its_json() -> None:
    commits = '{"s-group-0000": {"s.topic-0000": {"0": 64}}, "s-group-0001": {}}'
    assert franz.read(f'{{"seconds": [0.5, 0.25], "commits": {commits}}}') == (
        [0.5, 0.25],
        {("s-group-0000", "s.topic-0000", 0): 64},
    )


def test_each_refresh_of_klag_exporter_gives_its_seconds() -> None:
    unfinished = REFRESHED[: REFRESHED.index("34 timestamp")]
    assert klag.refreshes(2 * REFRESHED + unfinished) == [1.234, 1.234]


@pytest.mark.parametrize("trouble", ["WARN a: Group-offset call failed", "ERROR a: timed out"])
def test_a_refresh_with_trouble_is_none(trouble: str) -> None:
    with pytest.raises(ValueError, match=trouble):
        klag.refreshes(f"{REFRESHED}2026-11-22T01:50:00Z {trouble}\n")


def test_the_lags_of_klag_exporter_are_compared_with_the_layout() -> None:
    assert klag.group_lags(LAGS) == {"s-group-0000": 16, "s-group-0001": 1}
    assert klag.expected_lags(LAYOUT) == {"s-group-0000": 16, "s-group-0001": 16}


def test_the_exporter_listens_where_it_is_asked() -> None:
    text = klag.configuration("host-1:9092,host-2:9092", 1234)
    assert 'bootstrap_servers = "host-1:9092,host-2:9092"' in text
    assert 'http_host = "127.0.0.1"\nhttp_port = 1234\n' in text


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a script the only program that there is."""

    def become(script: str) -> None:
        program = tmp_path / "bin" / "cargo"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))

    return become


def test_without_cargo_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert klag_build.program(said.append, tmp_path / "klag") is None
    assert said == ["klag-exporter is left out: there is no cargo here."]


def test_what_is_built_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "klag" / "bin" / "klag-exporter"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert klag_build.program(said.append, tmp_path / "klag") == program
    assert not said


def test_the_pinned_version_is_built(tmp_path: Path, cargo: Callable[[str], None]) -> None:
    cargo('echo "$@"')
    folder = tmp_path / "klag"
    klag_build.program(lambda _: None, folder)
    assert (folder / "build.log").read_text() == (
        f"install klag-exporter --version {klag_build.VERSION} --locked"
        f" --features curl-static --root {folder}\n"
    )


def test_where_the_build_fails_the_log_is_named(
    tmp_path: Path, cargo: Callable[[str], None]
) -> None:
    cargo("exit 101")
    said: list[str] = []
    assert klag_build.program(said.append, tmp_path / "klag") is None
    assert said[-1].startswith("klag-exporter is left out: it could not be built, see ")
