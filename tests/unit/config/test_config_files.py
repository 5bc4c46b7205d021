"""The files of one configuration belong together, and nothing of them is passed over."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from retentiond.config import Config, load
from retentiond.errors import ConfigError
from tests.unit.config.files import ConfigMap

ENABLED = "retention.commitoffset.enable: true"
OFF = "retention.commitoffset.enable: false"


def main_file(folder: Path, rest: str = "policies: policies.d/*.yaml\n") -> Path:
    path = folder / "retentiond.yaml"
    path.write_text(f"kafka: {{bootstrap.servers: localhost:9092}}\n{rest}")
    return path


def team_file(path: Path, *entries: str, owner: str = "a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"owner: {owner}\ntopics: [{', '.join(entries)}]\n")
    return path


def at_each_open(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Right after a file was opened."""
    original = os.open

    def opened(path: str, flags: int) -> int:
        descriptor = original(path, flags)
        happens()
        return descriptor

    monkeypatch.setattr(os, "open", opened)


def swapped(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int, main: str) -> Config:
    """What is read while the ConfigMap is swapped behind the first ``times`` files."""
    versions = (
        {"a.yaml": "{pattern: 'x.*', ON}", "b.yaml": "{pattern: 'x.*', OFF}"},
        {"a.yaml": "{pattern: 'x.*', OFF}", "b.yaml": "{pattern: 'x.*', ON}"},
    )
    config_map, left = ConfigMap(folder / "policies.d"), times

    def put(version: int) -> None:
        config_map.put(
            {
                name: f"owner: a\ntopics: [{text.replace('ON', ENABLED).replace('OFF', OFF)}]\n"
                for name, text in versions[version].items()
            }
        )

    def swap() -> None:
        nonlocal left
        if left:
            left -= 1
            put(left % 2)

    put(times % 2)
    path = main_file(folder, main)
    at_each_open(monkeypatch, swap)
    return load(path, {})


@pytest.mark.parametrize("times", range(8))
def test_files_of_two_versions_of_a_config_map_are_never_mixed(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version switches ``x…`` off, and a mixture of the two would not."""
    config = swapped(monkeypatch, tmp_path, times, "policies: policies.d/*.yaml\n")
    assert config.policy_for("x1") is None


def test_files_that_keep_changing_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retentiond.config.reader.PAUSE_S", 0)
    with pytest.raises(ConfigError, match=r"keeps? changing while"):
        swapped(monkeypatch, tmp_path, 10_000, "policies: policies.d/*.yaml\n")


def test_whatever_changes_or_comes_behind_its_reading_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main file, a team's file, a secret, and a team's file that comes."""
    versions = iter(range(1, 5))

    def write(version: int) -> None:
        main_file(tmp_path, f"state_dir: ${{file:secret}}/{version}\npolicies: policies.d/*.yaml\n")
        (tmp_path / "secret").write_text(f"/{version}")
        team_file(tmp_path / "policies.d" / "a.yaml", f"{{name: o{version}, {ENABLED}}}")

    def change() -> None:
        if (version := next(versions, None)) == 3:
            write(9)
        elif version == 4:
            team_file(tmp_path / "policies.d" / "b.yaml", f"{{name: p, {ENABLED}}}")

    write(1)
    at_each_open(monkeypatch, change)
    config = load(tmp_path / "retentiond.yaml", {})
    assert config.state_dir == Path("/9/9")
    assert config.exact_names == {"o9", "p"}


@pytest.mark.parametrize("glob", ["policies.d/*/*.yaml", "policies.d/**/*.yaml", "*/b/o*.yaml"])
def test_a_folder_that_cannot_be_looked_into_is_named(
    glob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team_file(tmp_path / "policies.d" / "a" / "on.yaml", f"{{pattern: 'x.*', {ENABLED}}}")
    team_file(tmp_path / "policies.d" / "b" / "off.yaml", f"{{pattern: 'x.*', {OFF}}}")
    original, denied = os.scandir, tmp_path / "policies.d" / "b"

    def scandir(folder: Path) -> object:
        if Path(folder) == denied:
            raise PermissionError(13, "Permission denied")
        return original(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigError) as caught:
        load(main_file(tmp_path, f"policies: ['{glob}']\n"), {})
    assert caught.value.path == "policies[0]"
    assert f"can't look into {denied} (Permission denied)" in str(caught.value)


def broken_link(path: Path) -> None:
    path.symlink_to("gone")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_its_folder(path: Path) -> None:
    path.symlink_to(".")


@pytest.mark.parametrize(
    ("make", "glob"),
    [
        (broken_link, "policies.d/*/*.yaml"),
        (broken_link, "policies.d/**/*.yaml"),
        (broken_link, "policies.d/odd/*.yaml"),
        (link_to_itself, "policies.d/*/*.yaml"),
        (link_to_its_folder, "policies.d/**/*.yaml"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(
    make: Callable[[Path], None], glob: str, tmp_path: Path
) -> None:
    team_file(tmp_path / "policies.d" / "a" / "on.yaml", f"{{name: x, {ENABLED}}}")
    odd = tmp_path / "policies.d" / "odd"
    make(odd)
    with pytest.raises(ConfigError, match=f"can't look into {odd}"):
        load(main_file(tmp_path, f"policies: ['policies.d/a/*.yaml', '{glob}']\n"), {})


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a pipe and not a file"),
        (unix_socket, "a socket and not a file"),
        (device, "a device and not a file"),
        (os.mkdir, "a folder and not a file"),
        (broken_link, "No such file or directory"),
        (link_to_itself, "Too many levels of symbolic links"),
    ],
)
@pytest.mark.parametrize("name", ["policies.d/odd.yaml", "retentiond.yaml"])
def test_what_is_no_file_is_one_sentence_at_once(
    name: str, make: Callable[[Path], None], kind: str, tmp_path: Path
) -> None:
    team_file(tmp_path / "policies.d" / "a.yaml", f"{{name: x, {ENABLED}}}")
    main_file(tmp_path)
    odd = tmp_path / name
    odd.unlink(missing_ok=True)
    make(odd)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "retentiond.yaml", {})
    assert kind in str(caught.value)
    assert name in str(caught.value)


def test_links_to_files_count_and_hidden_ones_do_not(tmp_path: Path) -> None:
    real = team_file(tmp_path / "elsewhere" / "a.yaml", f"{{name: x, {ENABLED}}}")
    team_file(tmp_path / "policies.d" / "deep" / "er" / "b.yaml", f"{{name: y, {ENABLED}}}")
    team_file(tmp_path / "policies.d" / ".c.yaml", f"{{name: z, {ENABLED}}}")
    (tmp_path / "policies.d" / "a.yaml").symlink_to(real)
    (tmp_path / "policies.d" / "README").write_text("no policy")
    config = load(main_file(tmp_path, "policies: policies.d/**/*.yaml\n"), {})
    assert [each.source for each in config.entries] == [
        "policies.d/a.yaml: topics[0]",
        "policies.d/deep/er/b.yaml: topics[0]",
    ]
