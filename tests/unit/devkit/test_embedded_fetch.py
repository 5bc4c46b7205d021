"""Fetching the embedded Kafka's jars: once, whole, and the right ones."""

import multiprocessing
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafkaError, ivy, jars
from devkit.embedded.cache import cache_root, ensure
from devkit.embedded.java import find_java
from devkit.embedded.ports import LOOPBACK, PortReservations

FORK = multiprocessing.get_context("fork")


def test_of_two_processes_one_fetches_and_both_find_the_whole(tmp_path: Path) -> None:
    calls, wanted = tmp_path / "calls", tmp_path / "cache" / "broker"
    first_is_in, second_is_on_its_way = FORK.Event(), FORK.Event()

    def fetch(directory: Path) -> None:
        with calls.open("a") as log:
            log.write(f"{os.getpid()}\n")
        (directory / "one.jar").write_text("1")
        first_is_in.set()
        assert second_is_on_its_way.wait(60)
        (directory / "two.jar").write_text("2")

    def first() -> None:
        ensure(wanted, fetch)

    def second() -> None:
        second_is_on_its_way.set()
        found = ensure(wanted, fetch)
        assert {jar.name for jar in found.iterdir()} == {"one.jar", "two.jar"}

    one, two = FORK.Process(target=first), FORK.Process(target=second)
    one.start()
    assert first_is_in.wait(60)
    assert not wanted.exists(), "a half fetch must not be found"
    two.start()
    one.join(60)
    two.join(60)
    assert (one.exitcode, two.exitcode) == (0, 0)
    assert len(calls.read_text().splitlines()) == 1


def test_a_failed_fetch_leaves_nothing_to_be_mistaken(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "one.jar").write_text("1")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        ensure(tmp_path / "broker", fail)
    assert [entry.name for entry in tmp_path.iterdir()] == [".broker.lock"]


def test_the_remnant_of_a_killed_fetch_is_swept_by_the_next(tmp_path: Path) -> None:
    def die(directory: Path) -> None:
        (directory / "one.jar").write_text("1")
        os.kill(os.getpid(), signal.SIGKILL)

    killed = FORK.Process(target=ensure, args=(tmp_path / "broker", die))
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert list(tmp_path.glob(".broker.part-*/one.jar"))

    found = ensure(tmp_path / "broker", lambda directory: (directory / "a.jar").touch())
    assert [jar.name for jar in found.iterdir()] == ["a.jar"]
    assert {entry.name for entry in tmp_path.iterdir()} == {".broker.lock", "broker"}


def test_a_jar_that_is_not_the_locked_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counterfeit(
        coordinates: list[ivy.Coordinate], directory: Path, *, transitive: bool
    ) -> list[ivy.Coordinate]:
        for jar in coordinates:
            (directory / jar.file_name).write_text("something else")
        return coordinates

    monkeypatch.setattr(ivy, "retrieve", counterfeit)
    monkeypatch.setenv("RETENTIOND_KAFKA_CACHE", str(tmp_path))
    with pytest.raises(EmbeddedKafkaError, match=r"is not the file that 4\.4\.0-broker\.txt names"):
        jars.folder("4.4.0", "broker")
    assert not (tmp_path / "4.4.0" / "broker").exists()


def test_a_version_that_is_none_becomes_no_path() -> None:
    with pytest.raises(EmbeddedKafkaError, match=r"'\.\./4' is no version such as 4\.4\.0"):
        jars.folder("../4", "broker")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RETENTIOND_KAFKA_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/retentiond/kafka"),
        ({}, str(Path.home() / ".cache/retentiond/kafka")),
    ],
)
def test_the_cache_is_the_users_unless_told_otherwise(
    environ: dict[str, str], expected: str
) -> None:
    assert cache_root(environ) == Path(expected)


def _fake_java(folder: Path, version: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}"' >&2\n""")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(java)


def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path) -> None:
    _fake_java(tmp_path / "old", "1.8.0_402")
    new = _fake_java(tmp_path / "new", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    assert find_java(environ).path == new


def test_without_java_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedKafkaError, match=r"Java 17 or newer .* run scripts/setup"):
        find_java({"PATH": str(tmp_path)})


def test_a_reserved_port_is_nobodys_but_a_servers() -> None:
    with PortReservations() as ports, socket.socket() as stranger, socket.socket() as server:
        port = ports.take()
        with pytest.raises(OSError, match="Address already in use"):
            stranger.bind((LOOPBACK, port))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((LOOPBACK, port))
        server.listen()
        socket.create_connection((LOOPBACK, port), timeout=5).close()
