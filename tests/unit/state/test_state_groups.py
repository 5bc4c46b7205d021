"""The remembered groups on disk: they come back, or their loss is said and holds everything."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.act.evidence import Evidence
from retentiond.act.rule import relevant_groups
from retentiond.config import Config
from retentiond.decide.named_readers import excluded_groups
from retentiond.errors import StateError
from retentiond.memory.readers import NOBODY, GroupOnTopic
from retentiond.memory.remembered import NOTHING
from retentiond.model import GroupKind
from retentiond.snapshot import VANISHED, Snapshot
from retentiond.state.audit import Audit
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_file import NAME
from retentiond.state.groups_lookup import readers_of, recall
from retentiond.state.state import open_state
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    config,
    entry,
    healthy,
)
from tests.support.builders.group_memories import BILLING, cycle, remember, taken
from tests.support.fakes import FakeCluster
from tests.support.processes import run_python
from tests.unit.state.test_state_audit import CYCLE

READING = ("SELECT", "PRAGMA user_version", "PRAGMA table_info", "PRAGMA data_version")


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[GroupMemory]:
    with closing(GroupMemory.open(tmp_path)) as memory:
        yield memory


def filled(state_dir: Path, kafka: FakeCluster) -> None:
    with closing(GroupMemory.open(state_dir)) as memory:
        cycle(memory, kafka)


def asides(state_dir: Path) -> list[Path]:
    return [each for each in state_dir.glob(f"{NAME}.damaged-*") if each.name.endswith("Z")]


# It comes back


def test_a_fresh_directory_remembers_nothing_and_has_lost_nothing(
    memory: GroupMemory, tmp_path: Path
) -> None:
    assert memory.recall() == NOTHING
    assert recall(tmp_path) == NOTHING


def test_a_directory_that_is_not_there_remembers_nothing_and_is_not_made(tmp_path: Path) -> None:
    assert recall(tmp_path / "state") == NOTHING
    assert not (tmp_path / "state").exists()


def test_what_was_seen_is_there_after_a_restart(tmp_path: Path, kafka: FakeCluster) -> None:
    filled(tmp_path, kafka)

    with closing(GroupMemory.open(tmp_path)) as memory:
        remembered = memory.recall()

    assert remembered.lost is None
    assert remembered.commits[BILLING].offsets == {0: 3, 1: 4}
    assert remembered.commits[BILLING].absent_since_ms is None
    assert remembered.commits[GroupOnTopic("pipeline", "clicks")].kind is GroupKind.STREAMS
    assert remembered.topics["orders"].topic_id == kafka.topics["orders"].topic_id
    assert remembered.topics["orders"].groups == ("billing", "search")
    assert recall(tmp_path) == remembered


def test_a_commit_that_is_older_than_its_topic_is_known_as_such_after_restarts_until_it_moves(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    filled(tmp_path, kafka)
    kafka.delete_topic("orders")
    kafka.create_topic("orders", 2)
    for partition in (0, 1):
        kafka.produce("orders", partition, 9)
    kafka.commit("billing", {ORDERS_0: 3, ORDERS_1: 4})

    stale = []
    for at, offset in ((ORDERS_0, 3), (ORDERS_1, 4), (ORDERS_0, 4), (ORDERS_0, 3), (ORDERS_1, 2)):
        kafka.commit("billing", {at: offset})
        filled(tmp_path, kafka)
        known = recall(tmp_path).commits[BILLING]
        stale.append(set(known.stale))
        assert (readers_of(tmp_path, "orders") or {})["billing"] == known

    assert stale == [{0, 1}, {0, 1}, {1}, {1}, set()]


def test_a_group_on_a_topic_that_is_not_enabled_is_not_remembered(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    cycle(memory, kafka)

    assert "secrets" not in {at.topic for at in memory.recall().commits}


def test_only_what_has_changed_is_written(memory: GroupMemory, kafka: FakeCluster) -> None:
    statements: list[str] = []
    memory._connection.set_trace_callback(statements.append)
    cycle(memory, kafka)
    statements.clear()
    cycle(memory, kafka)
    assert not [each for each in statements if not each.startswith(READING)]

    kafka.commit("billing", {ORDERS_1: 5})
    cycle(memory, kafka)
    written = [each for each in statements if not each.startswith(READING)]
    assert [each.split()[0] for each in written] == ["BEGIN", "INSERT", "COMMIT", "PRAGMA"]
    assert "'orders'" in written[1]


def test_what_nobody_has_written_since_is_not_read_again(
    tmp_path: Path, memory: GroupMemory, kafka: FakeCluster
) -> None:
    """Neither this process nor another one."""
    cycle(memory, kafka)
    first = memory.recall()
    assert memory.recall() is first
    with closing(GroupMemory.open(tmp_path, shared=True)) as operator:
        assert memory.recall() is first
        assert operator.forget("billing") == ("orders",)
    assert memory.recall().commits == {
        at: last for at, last in first.commits.items() if at != BILLING
    }
    kafka.commit("billing", {ORDERS_0: 4})
    cycle(memory, kafka)
    assert memory.recall().commits[BILLING].offsets == {0: 4, 1: 4}


# Half of a transaction


def test_a_process_that_is_killed_in_the_midst_of_remembering_leaves_the_old_memory(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    filled(tmp_path, kafka)
    before = recall(tmp_path)
    program = """
    import os, signal, sys
    from pathlib import Path
    from retentiond.state.groups import GroupMemory

    memory = GroupMemory.open(Path(sys.argv[1]))
    with memory._transaction():
        memory._connection.execute("DELETE FROM readers")
        memory._connection.execute("DELETE FROM topics")
        os.kill(os.getpid(), signal.SIGKILL)
    """

    assert run_python(program, tmp_path).returncode == -9
    assert recall(tmp_path) == before
    with closing(GroupMemory.open(tmp_path)) as memory:
        assert memory.recall() == before


def _removed(log: Path) -> None:
    for suffix in ("-wal", "-shm"):
        log.with_name(NAME + suffix).unlink(missing_ok=True)


def _emptied(log: Path) -> None:
    log.write_bytes(b"")


def _garbled(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:500] + b"retentiond" * 20 + log.read_bytes()[700:])


@pytest.mark.long
@pytest.mark.parametrize("harm", [_removed, _emptied, _garbled])
def test_a_killed_process_leaves_no_memory_in_the_log_beside_the_file(
    tmp_path: Path, kafka: FakeCluster, harm: Callable[[Path], None]
) -> None:
    """SQLite takes a log that is gone or damaged for one that ends before that."""
    program = """
    import os, signal, sys
    from pathlib import Path
    from retentiond.state.groups import GroupMemory
    from tests.support.builders.gather_worlds import healthy
    from tests.support.builders.group_memories import cycle

    cycle(GroupMemory.open(Path(sys.argv[1])), healthy())
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run_python(program, tmp_path).returncode == -9

    harm(tmp_path / f"{NAME}-wal")

    with closing(GroupMemory.open(tmp_path)) as memory:
        assert memory.recall().commits[BILLING].offsets == {0: 3, 1: 4}


class _Failing:
    """A connection that fails when one kind of statement comes."""

    def __init__(self, connection: sqlite3.Connection, at: str) -> None:
        self._connection = connection
        self.at: str | None = at

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, sql: str, values: tuple[object, ...] = ()) -> object:
        self._fail(sql)
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: object) -> object:
        self._fail(sql)
        return self._connection.executemany(sql, rows)  # type: ignore[arg-type] # passed on

    def _fail(self, sql: str) -> None:
        if self.at is not None and sql.strip().startswith(self.at):
            raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_when_the_disk_is_full_nothing_has_changed_and_it_goes_on_once_there_is_space(
    tmp_path: Path, kafka: FakeCluster, statement: str
) -> None:
    filled(tmp_path, kafka)
    before = recall(tmp_path)
    kafka.commit("billing", {ORDERS_0: 4})
    kafka.commit("late", {CLICKS_0: 1})
    with closing(GroupMemory.open(tmp_path)) as memory:
        failing = _Failing(memory._connection, statement)
        memory._connection = failing  # type: ignore[assignment] # stands in for it

        with pytest.raises(
            StateError, match=r"can't be used \(database or disk is full\); w.*free"
        ):
            cycle(memory, kafka)
        assert recall(tmp_path) == before

        failing.at = None
        cycle(memory, kafka)
        assert recall(tmp_path).commits[BILLING].offsets == {0: 4, 1: 4}


def test_what_was_seen_only_while_the_disk_was_full_is_remembered(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    filled(tmp_path, kafka)
    late = GroupOnTopic("late", "clicks")
    with closing(GroupMemory.open(tmp_path)) as memory:
        failing = _Failing(memory._connection, "BEGIN")
        memory._connection = failing  # type: ignore[assignment] # stands in for it
        for offset in (1, 2):
            kafka.commit("late", {CLICKS_0: offset})
            kafka.commit("billing", {ORDERS_0: 1})
            with pytest.raises(StateError):
                cycle(memory, kafka)
        kafka.delete_group("late")
        kafka.delete_group("billing")
        with pytest.raises(StateError):
            cycle(memory, kafka)

        failing.at = None
        cycle(memory, kafka)
    found = recall(tmp_path).commits
    assert found[late].offsets == {0: 2}
    assert found[BILLING].offsets == {0: 1, 1: 4}
    assert None not in {found[late].absent_since_ms, found[BILLING].absent_since_ms}


def test_a_commit_beyond_the_end_that_only_the_guard_saw_while_the_disk_was_full_is_kept(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    """The log grows past it until the next cycle. It still proves nothing."""
    filled(tmp_path, kafka)
    with closing(GroupMemory.open(tmp_path)) as memory:
        before = memory.recall()
        kafka.commit("billing", {ORDERS_0: 8})
        failing = _Failing(memory._connection, "BEGIN")
        memory._connection = failing  # type: ignore[assignment] # stands in for it
        with pytest.raises(StateError):
            memory.remember_newcomers(taken(kafka, before), NOBODY, before)

        failing.at = None
        kafka.produce("orders", 0, 9)
        commits = cycle(memory, kafka).commits
        assert commits.filter(commits["is_stale"])["offset"].to_pylist() == [8]
    assert recall(tmp_path).commits[BILLING].stale == {0}


# Forgetting, while a daemon runs


def test_a_group_that_is_forgotten_is_gone_and_others_stay(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    cycle(memory, kafka)

    assert memory.forget("search") == ("clicks", "orders")
    assert memory.forget("search") == ()
    assert {at.group_id for at in memory.recall().commits} == {"billing", "newcomer", "pipeline"}


@pytest.mark.parametrize("is_back", [False, True])
def test_a_cycle_that_is_under_way_does_not_bring_a_forgotten_group_back(
    tmp_path: Path, kafka: FakeCluster, *, is_back: bool
) -> None:
    with closing(GroupMemory.open(tmp_path)) as daemon:
        cycle(daemon, kafka)
        kafka.delete_group("billing")
        if is_back:  # and goes for good after this reading
            kafka.commit("billing", {ORDERS_0: 4})
        before = daemon.recall()
        snapshot = taken(kafka, before)
        with closing(GroupMemory.open(tmp_path, shared=True)) as operator:
            assert operator.forget("billing") == ("orders",)
        remember(daemon, snapshot, before)

        assert BILLING not in daemon.recall().commits


def test_a_forgotten_group_that_still_commits_is_remembered_by_the_next_cycle(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    cycle(memory, kafka)
    memory.forget("billing")
    cycle(memory, kafka)

    assert memory.recall().commits[BILLING].offsets == {0: 3, 1: 4}


# Losses

MALFORMED_ROWS = {
    "rows that are nothing": "UPDATE readers SET rows = x''",
    "rows that are cut off": "UPDATE readers SET rows = substr(rows, 1, 500)",
    "rows with other bytes": "UPDATE readers SET rows = CAST(rows || x'00' AS BLOB)",
    "another checksum": "UPDATE readers SET crc = crc + 1",
    "rows of another topic": "UPDATE readers SET topic = 'other' WHERE topic = 'orders'",
}


def _statement(sql: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(sql)

    return damage


def _truncated(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": _truncated,
    "overwritten": _overwritten,
    "another file": lambda path: path.write_text("not a database, and long enough to be one" * 99),
    "no schema": _statement("PRAGMA user_version = 0"),
    "no tables": _statement("DROP TABLE readers"),
    **{name: _statement(sql) for name, sql in MALFORMED_ROWS.items()},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_kept_aside_and_holds_everything_until_it_is_accepted(
    tmp_path: Path, kafka: FakeCluster, damage: str
) -> None:
    filled(tmp_path, kafka)
    DAMAGES[damage](tmp_path / NAME)
    damaged = (tmp_path / NAME).read_bytes()
    assert recall(tmp_path).lost is not None

    with closing(GroupMemory.open(tmp_path)) as memory:
        (aside,) = asides(tmp_path)
        assert aside.read_bytes() == damaged
        lost = memory.recall().lost
        assert lost is not None
        assert str(aside) in lost
        assert lost.endswith("; `retentiond groups accept` goes on without it")
        assert "\n" not in lost
        assert lost in cycle(memory, kafka).problems

    with closing(GroupMemory.open(tmp_path)) as memory:  # it survives a restart
        assert memory.recall().lost == lost
        assert not cycle(memory, kafka).complete
        assert memory.accept_losses() == (lost,)
        assert cycle(memory, kafka).complete
    assert recall(tmp_path).lost is None


@pytest.mark.parametrize(("schema", "whose"), [(99, "by a newer"), (6, "by an earlier")])
def test_a_file_of_another_schema_is_refused_and_left_alone(
    tmp_path: Path, kafka: FakeCluster, schema: int, whose: str
) -> None:
    filled(tmp_path, kafka)
    _statement(f"PRAGMA user_version = {schema}")(tmp_path / NAME)

    for use in (GroupMemory.open, recall):
        with pytest.raises(StateError, match=rf"{whose} retentiond.*; run that version, or"):
            use(tmp_path)
    assert not asides(tmp_path)


def test_a_missing_file_beside_an_audit_log_with_cycles_is_a_loss(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    with open_state(tmp_path) as state:
        cycle(state.memory, kafka)
        state.audit.record_cycle(CYCLE)
    (tmp_path / NAME).unlink()

    lost = f"the remembered groups are gone: {tmp_path / NAME} is missing; "
    assert str(recall(tmp_path).lost).startswith(lost)
    with open_state(tmp_path) as state:
        assert str(state.memory.recall().lost).startswith(lost)


def test_a_missing_file_beside_an_audit_log_without_cycles_is_none(tmp_path: Path) -> None:
    Audit.open(tmp_path).close()  # `retentiond pause` makes one before the first start

    assert recall(tmp_path).lost is None
    with open_state(tmp_path) as state:
        assert state.memory.recall().lost is None


def test_a_missing_file_beside_a_damaged_audit_log_is_a_loss(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_text("no audit log")

    with closing(GroupMemory.open(tmp_path)) as memory:
        assert memory.recall().lost is not None


def test_a_log_that_lost_its_file_is_not_replayed_into_the_new_one(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    running, crashed = tmp_path / "running", tmp_path / "crashed"
    running.mkdir()
    with closing(GroupMemory.open(running)) as memory:
        cycle(memory, kafka)
        memory._connection.execute("UPDATE topics SET agreed = agreed + 1")  # in the log alone
        shutil.copytree(running, crashed)
    assert (crashed / f"{NAME}-wal").stat().st_size > 0
    (crashed / NAME).unlink()

    with closing(GroupMemory.open(crashed)) as memory:
        remembered = memory.recall()
    assert remembered.commits == {}
    assert remembered.lost is not None
    assert list(crashed.glob(f"{NAME}.damaged-*-wal"))


def test_a_crash_while_a_damaged_file_is_put_aside_is_still_a_loss(
    tmp_path: Path, kafka: FakeCluster
) -> None:
    filled(tmp_path, kafka)
    (tmp_path / NAME).rename(tmp_path / f"{NAME}.damaged-20260101T000000Z")

    with closing(GroupMemory.open(tmp_path)) as memory:
        assert memory.recall().lost is not None


@pytest.mark.parametrize("spoil", ["removed", "replaced"])
def test_a_file_that_is_taken_away_from_a_running_daemon_stops_it(
    tmp_path: Path, kafka: FakeCluster, spoil: str
) -> None:
    path = tmp_path / NAME
    with closing(GroupMemory.open(tmp_path)) as memory:
        cycle(memory, kafka)
        before = memory.recall()
        kafka.commit("billing", {ORDERS_0: 4})
        snapshot = taken(kafka, before)
        if spoil == "replaced":
            shutil.copy(path, tmp_path / "copy")
            (tmp_path / "copy").rename(path)
        else:
            path.unlink()

        for use in (memory.recall, lambda: remember(memory, snapshot, before)):
            with pytest.raises(StateError, match=r"were removed or replaced .*restart retentiond"):
                use()


# Other processes


@pytest.mark.parametrize("damage", ["empty", "truncated", "another file", "no tables"])
def test_another_process_neither_mends_nor_moves_a_damaged_file(
    tmp_path: Path, kafka: FakeCluster, damage: str
) -> None:
    filled(tmp_path, kafka)
    DAMAGES[damage](tmp_path / NAME)
    before = (tmp_path / NAME).read_bytes()

    with pytest.raises(StateError, match=r"are damaged \(.*\); restart retentiond"):
        GroupMemory.open(tmp_path, shared=True)
    assert (tmp_path / NAME).read_bytes() == before
    assert not asides(tmp_path)


def test_another_process_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="there are no remembered groups in"):
        GroupMemory.open(tmp_path, shared=True)
    (tmp_path / f"{NAME}.damaged-20260101T000000Z").touch()
    with pytest.raises(StateError, match=r"the remembered groups are gone: .*; restart retentiond"):
        GroupMemory.open(tmp_path, shared=True)
    assert not (tmp_path / NAME).exists()


def test_the_files_are_for_their_owner_alone(tmp_path: Path, kafka: FakeCluster) -> None:
    state_dir = tmp_path / "state"
    with open_state(state_dir) as state:
        cycle(state.memory, kafka)
        state.audit.record_cycle(CYCLE)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in state_dir.iterdir()}
    of_databases = (
        f"{name}{suffix}" for name in ("audit.db", NAME) for suffix in ("", "-wal", "-shm")
    )
    assert modes == dict.fromkeys(("lock", *of_databases), 0o600)
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700


# Two readers of one name


def external(place: Path, **offsets: int) -> Config:
    """The policy that names external reader ``billing``, whose position is in the file."""
    numbers = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    place.write_text(json.dumps({"orders": numbers}))
    reader = {"name": "billing", "offsets": str(place), "max_age": "36500d"}
    return config(entry("orders", groups={"external": [reader]}), entry("clicks"))


def vanished(read: Snapshot) -> dict[str, GroupKind]:
    return {each.group_id: each.kind for each in read.groups if each.state == VANISHED}


def test_an_external_reader_that_was_taken_out_holds_while_a_group_has_its_name(
    kafka: FakeCluster, memory: GroupMemory, tmp_path: Path
) -> None:
    kafka.delete_group("billing")
    cycle(memory, kafka, external(tmp_path / "at.json", p0=1, p1=1))
    kafka.commit("billing", {ORDERS_0: 6, ORDERS_1: 6})
    for _ in range(3):
        read = cycle(memory, kafka)
    assert vanished(read) == {"billing (external)": GroupKind.EXTERNAL}
    remembered = memory.recall().commits
    assert remembered[GroupOnTopic("billing", "orders", is_external=True)].offsets == {0: 1, 1: 1}
    assert remembered[BILLING].offsets == {0: 6, 1: 6}

    assert memory.forget("billing", is_external=True) == ("orders",)
    assert not vanished(cycle(memory, kafka))
    assert memory.recall().commits[BILLING].offsets == {0: 6, 1: 6}


def test_a_reader_whose_own_name_looks_like_a_vanished_namesake_is_another_reader(
    kafka: FakeCluster, memory: GroupMemory, tmp_path: Path
) -> None:
    kafka.delete_group("billing")
    place = tmp_path / "at.json"
    place.write_text(json.dumps({"orders": {0: 1, 1: 1}}))
    readers = [
        {"name": name, "offsets": str(place), "max_age": "36500d"}
        for name in ("billing", "billing (external)")
    ]
    cycle(memory, kafka, config(entry("orders", groups={"external": readers}), entry("clicks")))
    kafka.commit("billing", {ORDERS_0: 6, ORDERS_1: 6})
    for _ in range(2):
        read = cycle(memory, kafka)
    assert vanished(read) == dict.fromkeys(
        ("billing (external)", "billing (external)*"), GroupKind.EXTERNAL
    )


def test_what_the_policy_excludes_does_not_hold_under_the_other_name(
    kafka: FakeCluster, memory: GroupMemory, tmp_path: Path
) -> None:
    """Nor does it stop counting where the policy counts it by its own name alone."""
    cycle(memory, kafka)
    kafka.delete_group("billing")
    policy = external(tmp_path / "at.json", p0=6, p1=6)
    read = cycle(memory, kafka, policy)
    evidence = Evidence(read, ["orders"])
    assert "billing (group)" in relevant_groups(evidence, "orders")
    for rule, counts in (({"only": ["billing"]}, True), ({"exclude": ["billing"]}, False)):
        topics = tuple(
            replace(each, policy=made)
            for each in read.topics
            if (made := config(entry(each.name, groups=rule)).policy_for(each.name))
        )
        judged = replace(read, topics=topics)
        found = relevant_groups(Evidence(judged, ["orders"]), "orders")
        assert ("billing (group)" in found) is counts
        position = [each.group_id for each in judged.groups].index("billing (group)")
        excluded = excluded_groups(judged)["group_id"].to_pylist()
        assert (position not in excluded) is counts
