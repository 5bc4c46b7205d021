"""A configuration that is read again, at a pace of its own."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retentiond.config import Config, load
from retentiond.config.files import ConfigFiles
from retentiond.daemon.reload import RELOAD_TIMEOUT_S, SETTLED_S, Reading, Reload
from retentiond.errors import ConfigError
from tests.support.builders.daemons import settings
from tests.support.waiting import eventually
from tests.unit.config.files import ConfigMap


class Files:
    """What each reading finds once it is there."""

    def __init__(self) -> None:
        self.found: queue.SimpleQueue[Config | Exception] = queue.SimpleQueue()
        self.readings = 0
        self.taken: list[Config | ConfigError] = []
        self.now_s = 0.0
        self.reload = Reload(self._read, self.taken.append, self._refuse, lambda: self.now_s)

    def _refuse(self, error: ConfigError, _unreadable: object) -> None:
        self.taken.append(error)

    def _read(self, _make_files: object) -> Reading:
        self.readings += 1
        found = self.found.get()
        if isinstance(found, Config | ConfigError):
            return Reading(found, ConfigFiles())
        raise found


@pytest.fixture
def files() -> Iterator[Files]:
    made = Files()
    yield made
    for _ in range(made.readings):  # nobody is left waiting
        made.found.put(ConfigError("the end"))


def test_whoever_asks_waits_for_no_file(files: Files) -> None:
    files.reload.begin()
    assert files.taken == []
    files.found.put(settings())
    eventually(lambda: files.taken == [settings()])


def test_what_is_asked_for_during_a_reading_follows_it_once(files: Files) -> None:
    changed = settings(dry_run=False)
    for _ in range(3):
        files.reload.begin()
    files.found.put(settings())
    files.found.put(changed)
    eventually(lambda: files.taken == [settings(), changed])
    assert files.readings == 2


def test_a_secret_that_does_not_come_is_given_up_and_its_late_answer_passed_over(
    files: Files,
) -> None:
    files.reload.begin()
    files.now_s += RELOAD_TIMEOUT_S
    files.reload.go_on()
    assert files.taken == []
    files.now_s += 1
    files.reload.go_on()
    (refusal,) = files.taken
    assert "could not be read within 30 s" in str(refusal)
    files.reload.begin()
    eventually(lambda: files.readings == 2)
    files.found.put(settings(dry_run=False))  # whoever of the two gets it
    files.found.put(settings(dry_run=False))
    eventually(lambda: files.taken[1:] == [settings(dry_run=False)])


def test_a_reading_that_breaks_is_refused(files: Files) -> None:
    files.reload.begin()
    files.found.put(RuntimeError("a bug"))
    eventually(
        lambda: [str(each) for each in files.taken] == ["it can't be read: RuntimeError('a bug')"]
    )


ON = "retention.commitoffset.enable: true"


class Watched:
    """A main file and a ConfigMap of policy files, looked at as ``reload.watch`` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.main = folder / "retentiond.yaml"
        self.policies = ConfigMap(folder / "policies.d")
        self.now_s = 100.0
        self.taken: list[Config | ConfigError] = []
        self.main.write_text(
            "kafka: {bootstrap.servers: localhost:9092}\nreload: {watch: true}\n"
            "policies: policies.d/*.yaml\n"
        )
        self.swap(a="orders")
        first = self._read(ConfigFiles)
        assert isinstance(first.outcome, Config)
        self.unsettled: tuple[str, ...] = ()
        self.reload = Reload(
            self._read,
            self.taken.append,
            self._refuse,
            lambda: self.now_s,
            first.files,
            tell_unsettled=self._see_unsettled,
        )

    def _see_unsettled(self, files: tuple[str, ...]) -> None:
        self.unsettled = files

    def _refuse(self, error: ConfigError, _unreadable: object) -> None:
        self.taken.append(error)

    def _read(self, make_files: Callable[[], ConfigFiles]) -> Reading:
        files: list[ConfigFiles] = []
        try:
            return Reading(load(self.main, {}, tell=files.append, make_files=make_files), files[-1])
        except ConfigError as error:
            return Reading(error, files[-1])

    def swap(self, **topics: str) -> None:
        """Another version of the ConfigMap."""
        self.policies.put({f"{name}.yaml": self.text(topic) for name, topic in topics.items()})

    @staticmethod
    def text(topic: str) -> str:
        return f"owner: a\ntopics: [{{name: {topic}, {ON}}}]\n"

    def look(self, after_s: float = SETTLED_S) -> list[str | frozenset[str]]:
        """What a look puts in force, or refuses."""
        self.now_s += after_s
        self.reload.look(10)
        taken, self.taken[:] = [*self.taken], []
        return [str(e) if isinstance(e, ConfigError) else e.exact_names for e in taken]

    def by_an_editor(self) -> None:
        (self.folder / "policies.d" / "new~").write_text(self.text("payments"))
        os.replace(self.folder / "policies.d" / "new~", self.folder / "policies.d" / "a.yaml")

    def in_two_halves(self) -> None:
        """The second one comes between two looks."""
        half = self.folder / "policies.d" / "a.yaml"
        half.unlink()
        half.write_text(self.text("pay"))
        assert self.look() == []
        half.write_text(self.text("payments"))

    def by_a_config_map(self) -> None:
        self.swap(a="payments")

    def by_a_file_that_comes_and_one_that_goes(self) -> None:
        self.swap(b="payments")

    def by_the_main_file(self) -> None:
        self.main.write_text(self.main.read_text().replace("policies.d/", "others/"))
        (self.folder / "others").mkdir()
        (self.folder / "others" / "a.yaml").write_text(self.text("payments"))


@pytest.mark.parametrize(
    "change",
    [
        Watched.by_an_editor,
        Watched.in_two_halves,
        Watched.by_a_config_map,
        Watched.by_a_file_that_comes_and_one_that_goes,
        Watched.by_the_main_file,
    ],
)
def test_changed_files_are_taken_once_they_have_not_changed_for_five_seconds(
    change: Callable[[Watched], None], tmp_path: Path
) -> None:
    watched = Watched(tmp_path)
    assert watched.look() == []
    change(watched)
    assert watched.look() == []
    assert watched.look(SETTLED_S - 1) == []
    assert watched.look(1) == [frozenset({"payments"})]
    assert watched.look() == watched.look() == []


def test_a_change_that_is_taken_back_before_it_has_settled_is_none(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.main.read_text()
    watched.main.write_text("kafka: [\n")
    assert watched.look() == []
    watched.main.write_text(before)
    assert watched.look() == watched.look() == []


def test_a_refused_content_is_told_once_and_what_follows_is_taken(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.swap(a="orders, oops: 1")
    assert watched.look() == []
    (refusal,) = watched.look()
    assert "topics[0].oops: unknown setting" in str(refusal)
    assert watched.look() == watched.look() == []
    watched.swap(a="orders")
    assert watched.look() == []
    assert watched.look() == [frozenset({"orders"})]


def test_what_has_changed_is_looked_at_again_without_a_further_cycle(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.swap(a="payments")
    assert watched.look() == []
    watched.reload.go_on()
    watched.now_s += SETTLED_S
    watched.reload.go_on()
    eventually(lambda: len(watched.taken) == 1)


def restless(watched: Watched, number: int) -> None:
    """A generator that writes a time into a comment."""
    text = f"owner: g\ntopics: [{{name: generated, {ON}}}]  # {number}\n"
    (watched.folder / "policies.d" / "g.yaml").write_text(text)


def test_a_file_that_never_stands_still_keeps_no_other_change_out_and_is_told(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    restless(watched, 0)
    for _ in range(2):
        watched.look()
    watched.swap(a="payments")
    taken: list[str | frozenset[str]] = []
    for number in range(1, 60):
        restless(watched, number)
        taken += watched.look()
        if number == 6:
            assert taken == [frozenset({"payments", "generated"})]
            watched.swap(a="orders")
    assert taken[1:] == [frozenset({"orders", "generated"})]
    assert watched.unsettled == (str(tmp_path / "policies.d" / "g.yaml"),)
    for _ in range(3):
        watched.look()
    assert not watched.unsettled


def test_two_contents_that_take_turns_do_not_stand_still(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    file = tmp_path / "policies.d" / "g.yaml"
    for _ in range(6):
        for topic in ("one", "two"):  # each look finds the second one
            file.write_text(watched.text(topic))
        assert watched.look() == []


def test_a_look_begins_no_further_reading_beside_one_that_was_given_up(files: Files) -> None:
    files.reload.begin()
    files.now_s += RELOAD_TIMEOUT_S + 1
    files.reload.go_on()
    for _ in range(3):
        files.reload.look()
    assert files.readings == 1
