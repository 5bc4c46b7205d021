"""The witness on the wire can fail: it finds each of these faults, which are made on purpose.

A mutant replaces a part of retentiond in memory, and its requests go out all the same. The witness
is to tell from what passed that they are not proven. docs/reliability.md has the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import retentiond.cycle
from devkit.embedded import EmbeddedKafka
from retentiond.act import carry_out, delete, slices
from retentiond.act.request import Requester
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.confluent import client, delete_records
from retentiond.kafka.confluent.delete_records import Deleter
from retentiond.kafka.interface import GroupMembers, OffsetBound
from retentiond.kafka.network_client import NetworkClient
from retentiond.model import Commit, GroupKind, TopicPartition
from tests.contract.real import RealDriver, connect
from tests.faults.held import PATH
from tests.support.brokers.command import Document, configure, consumed
from tests.support.brokers.cycles import Retentiond
from tests.support.witnessed import CONFIGURED, verdicts

pytestmark = pytest.mark.broker

TOO_LONG_S = 5.2
HOUR_MS = 3_600_000


@dataclass
class Scene:
    """Of the topic's two partitions, with ten records each, a group has read seven."""

    driver: RealDriver
    folder: Path
    topic: str
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.group = f"readers-of-{self.topic}"
        self.driver.filled_topic(self.topic, {self.group: 7}, partitions=2)

    def around(self, owner: Any, name: str, mutant: Callable[..., Any]) -> None:
        """The mutant gets the original before its arguments."""
        original = getattr(owner, name)
        self.patch.setattr(owner, name, lambda *args, **more: mutant(original, *args, **more))

    def retentiond(self, entry: Document | None = None, **more: Any) -> Retentiond:
        return Retentiond(self.driver.kafka, self.folder, entry or self.topic, **more)

    def faults(self, by: Retentiond | None = None, **cycle: Any) -> list[str]:
        verdicts()
        (by or self.retentiond()).cycle(**cycle)
        return [fault for verdict in verdicts() for fault in verdict.faults]

    def faults_of_requests(
        self, changed: Callable[[dict[TopicPartition, int]], dict[TopicPartition, int]]
    ) -> list[str]:
        def request(original: Any, admin: AdminClient, offsets: Any, *more: Any) -> Any:
            return original(admin, changed(dict(offsets)), *more)

        self.around(delete_records, "request", request)
        return self.faults()


@pytest.fixture
def scene(
    driver: RealDriver, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    return Scene(driver, tmp_path, topic_name, monkeypatch)


def test_a_sound_cycle_is_proven(scene: Scene) -> None:
    verdicts()
    scene.retentiond().cycle()
    found = verdicts()
    assert sum(each.deletions for each in found) == 2
    assert [fault for each in found for fault in each.faults] == []


def ids_asked_earlier(scene: Scene) -> list[str]:
    def look(original: Any, deleter: Deleter, partitions: Any, *more: Any) -> Any:
        ids = original(deleter, partitions, *more)
        deleter._ask_leaders(partitions, 3.0, 1.0)
        return ids

    scene.around(Deleter, "look", look)
    return scene.faults()


def group_left_out_of_the_second_reading(scene: Scene) -> list[str]:
    kept: dict[str, Any] = {}

    def commits(original: Any, kafka: Any, groups: Collection[str], *on: Any) -> Any:
        if not kept:
            kept.update(original(kafka, groups, *on))
            return dict(kept)
        return original(kafka, [g for g in groups if g not in kept], *on) | kept

    scene.around(KafkaCluster, "commits", commits)
    return scene.faults()


def without_second_reading(scene: Scene) -> None:
    def again(_kafka: object, _config: object, _now: int, first: Any, *_: Any, **__: Any) -> Any:
        return replace(first)

    scene.patch.setattr(retentiond.cycle, "gather_again", again)


def second_reading_skipped(scene: Scene) -> list[str]:
    without_second_reading(scene)
    return scene.faults(before_guard=lambda: time.sleep(TOO_LONG_S))


def recreated_topic_overlooked(scene: Scene) -> list[str]:
    def recreate() -> None:
        scene.driver.delete_topic(scene.topic)
        scene.driver.filled_topic(scene.topic, partitions=2)

    without_second_reading(scene)
    scene.around(Requester, "_last_look", lambda original, *args: original(*args) and {})
    return scene.faults(before_guard=recreate)


def evidence_used_for_two_slices(scene: Scene) -> list[str]:
    read: list[Any] = []

    def again(original: Any, *args: Any, **more: Any) -> Any:
        first = args[3]
        read.append(replace(first) if read else original(*args, **more))
        return read[-1]

    scene.patch.setattr(slices, "MOST_PARTITIONS", 1)
    scene.around(retentiond.cycle, "gather_again", again)
    return scene.faults()


def no_commit_taken_for_the_end(scene: Scene) -> list[str]:
    half = f"half-{scene.topic}"
    scene.driver.commit(half, {(scene.topic, 1): 9})

    def commits(original: Any, kafka: Any, groups: Any, *on: Any) -> Any:
        end = [Commit(scene.topic, at, 9) for at in (0, 1)]
        return {**original(kafka, groups, *on), half: end}

    scene.around(KafkaCluster, "commits", commits)
    return scene.faults()


def member_without_commit_overlooked(scene: Scene) -> list[str]:
    def members(original: Any, kafka: Any, listed: Any) -> Any:
        return dict.fromkeys(original(kafka, listed), GroupMembers(frozenset()))

    scene.around(KafkaCluster, "members", members)
    with scene.driver.subscribed(f"new-{scene.topic}", GroupKind.CONSUMER, [scene.topic]):
        return scene.faults()


def offset_beyond_a_commit(scene: Scene) -> list[str]:
    return scene.faults_of_requests(
        lambda offsets: {at: offset + 1 for at, offset in offsets.items()}
    )


def everything_asked_for(scene: Scene) -> list[str]:
    return scene.faults_of_requests(lambda offsets: dict.fromkeys(offsets, -1))


def topic_of_no_policy(scene: Scene) -> list[str]:
    other = scene.driver.filled_topic(f"other-{scene.topic}")
    return scene.faults_of_requests(lambda offsets: {**offsets, TopicPartition(other, 0): 1})


def open_transaction_overlooked(scene: Scene) -> list[str]:
    def offsets(original: Any, kafka: Any, partitions: Any, bound: OffsetBound) -> Any:
        more = 3 if bound is OffsetBound.LAST_STABLE else 0
        return {at: end + more for at, end in original(kafka, partitions, bound).items()}

    scene.around(KafkaCluster, "offsets", offsets)
    transaction = scene.driver.begin(scene.topic, 3)
    scene.driver.commit(scene.group, {(scene.topic, 0): 12})
    try:
        return scene.faults()
    finally:
        transaction.abort()


def by_time(scene: Scene, mutant: Callable[..., Any]) -> list[str]:
    scene.around(KafkaCluster, "offsets_at", mutant)
    hour = {"retention.commitoffset.ms": HOUR_MS}
    return scene.faults(scene.retentiond(consumed(scene.topic, **hour)))


def age_not_asked(scene: Scene) -> list[str]:
    return by_time(scene, lambda _original, _kafka, stamps, *_: dict.fromkeys(stamps))


def age_of_another_retention(scene: Scene) -> list[str]:
    def later(original: Any, kafka: Any, stamps: Any, *more: Any) -> Any:
        return original(kafka, {at: stamp + HOUR_MS for at, stamp in stamps.items()}, *more)

    return by_time(scene, later)


def evidence_grown_old(scene: Scene) -> list[str]:
    def look(original: Any, *args: Any) -> Any:
        time.sleep(TOO_LONG_S)
        return original(*args)

    for module in (carry_out, delete):
        scene.patch.setattr(module, "MAX_EVIDENCE_AGE_S", 60.0)
    scene.around(Deleter, "look", look)
    return scene.faults()


def dry_run_overlooked(scene: Scene) -> list[str]:
    retentiond = scene.retentiond(dry_run=True)
    retentiond.config = retentiond.config.model_copy(update={"dry_run": False})
    return scene.faults(retentiond)


def trial_overlooked(scene: Scene) -> list[str]:
    retentiond = scene.retentiond(consumed(scene.topic, dry_run=True))
    retentiond.config = scene.retentiond().config
    CONFIGURED.pop()  # of that one
    return scene.faults(retentiond)


def topic_created(scene: Scene) -> list[str]:
    def look(original: Any, *args: Any) -> Any:
        servers = scene.driver.broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "client.id": "retentiond"})
        admin.create_topics([NewTopic(f"new-{scene.topic}", 1)])[f"new-{scene.topic}"].result(30)
        return original(*args)

    scene.around(Deleter, "look", look)
    return scene.faults()


MUTANTS: dict[Callable[[Scene], list[str]], str] = {
    ids_asked_earlier: "before the answer to list_offsets",
    group_left_out_of_the_second_reading: "was not answered since the listing",
    second_reading_skipped: "no listing of groups that was asked for within 5 s",
    recreated_topic_overlooked: "the topic had two ids",
    evidence_used_for_two_slices: "no last stable offset was answered since the listing",
    no_commit_taken_for_the_end: "has no offset on the partition",
    member_without_commit_overlooked: "has no offset on the partition",
    offset_beyond_a_commit: "has the offset 7",
    everything_asked_for: "it asks for all records",
    topic_of_no_policy: "no configuration enables the topic",
    open_transaction_overlooked: "the last stable offset was answered as 10",
    age_not_asked: f"no offset of {HOUR_MS} ms ago was answered",
    age_of_another_retention: f"no offset of {HOUR_MS} ms ago was answered",
    evidence_grown_old: "no listing of groups that was asked for within 5 s",
    dry_run_overlooked: "a dry run",
    trial_overlooked: "the topic is on trial",
    topic_created: "create_topics to broker 1: no request by which retentiond reads",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_witness_finds(scene: Scene, mutant: Callable[[Scene], list[str]]) -> None:
    found = mutant(scene)
    assert any(MUTANTS[mutant] in fault for fault in found), found


def test_the_witness_finds_the_client_of_another_cluster(
    scene: Scene, own_kafka: type[EmbeddedKafka]
) -> None:
    with (
        own_kafka() as other,
        closing(RealDriver(other)) as there,
        closing(connect(other.bootstrap_servers)) as deleting,
    ):
        there.filled_topic(scene.topic, {scene.group: 7}, partitions=2)
        described: Any = scene.driver.kafka.describe_topics([scene.topic])[scene.topic]

        def look(_original: Any, _kafka: Any, partitions: Any) -> Any:
            deleting._records.look_before_deleting(partitions)
            return {scene.topic: described.topic_id}

        scene.around(KafkaCluster, "look_before_deleting", look)
        scene.patch.setattr(scene.driver.kafka, "_records", deleting._records)
        found = scene.faults()
    assert any("no listing of groups" in fault for fault in found), found


@pytest.fixture(scope="module")
def three(three_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(three_kafka)) as made:
        yield made


def test_the_witness_finds_a_listing_that_lacks_a_broker(
    three: RealDriver, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(three, tmp_path, topic_name, monkeypatch)
    for number in range(8):  # some are coordinated by brokers that are asked
        three.commit(f"{number}-{topic_name}", {(topic_name, at): 7 for at in (0, 1)})
    brokers = NetworkClient.brokers

    async def fewer(network: NetworkClient) -> Any:
        return (await brokers(network))[:-1]

    monkeypatch.setattr(NetworkClient, "brokers", fewer)
    found = scene.faults()
    assert any("answered no listing of groups" in fault for fault in found), found


@pytest.mark.parametrize("by_a_new_process", [False, True])
def test_the_witness_finds_a_second_request_before_the_read_back(
    three: RealDriver,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    by_a_new_process: bool,
) -> None:
    """A follower that stands still lets the first one time out. On the wire a new process is new
    connections."""
    scene = Scene(three, tmp_path, topic_name, monkeypatch)
    placed = three.broker.admin().list_topics(topic_name, timeout=30).topics[topic_name]
    leaders = {each.leader for each in placed.partitions.values()}
    follower = next(node for node in three.broker.nodes if node.node_id not in leaders)

    def send(original: Any, requester: Any, asked: Any) -> Any:
        follower.pause()
        try:
            original(requester, asked)
        finally:
            follower.resume()
        with closing(connect(three.broker.bootstrap_servers)) as new:
            kafka = new if by_a_new_process else three.kafka
            kafka.look_before_deleting([each.at for each in asked])
            return original(replace(requester, send=kafka.delete_records), asked)

    monkeypatch.setattr(client, "DELETE_TIMEOUT_S", 0.1)
    scene.around(Requester, "_send", send)
    found = scene.faults()
    assert any("was requested before, and was not read back" in fault for fault in found), found


@pytest.mark.parametrize("beyond", [0, 1])
def test_it_stands_before_brokers_that_are_not_arranged_for_it(
    three: RealDriver,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    beyond: int,
) -> None:
    """All of the daemon's traffic passes through it, whichever broker it is for."""
    scene = Scene(three, tmp_path, topic_name, monkeypatch)
    servers = three.broker.nodes[0].bootstrap_server
    config = configure(tmp_path, servers, topic_name, dry_run=False)
    with subprocess.Popen(
        [sys.executable, "-m", "devkit.witness", "--bootstrap-server", servers, "--config", config],
        env={**os.environ, "PYTHONPATH": PATH},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"bootstrap.servers (\S+);", process.stdout.readline())
        assert found is not None
        with closing(connect(found[1])) as behind:
            monkeypatch.setattr(three, "kafka", behind)
            scene.faults_of_requests(
                lambda offsets: {at: offset + beyond for at, offset in offsets.items()}
            )
        process.terminate()
        *faults, summary = process.stdout.read().splitlines()
        assert process.wait(30) == beyond
    assert " 2 offsets: " in summary
    assert len(faults) == 2 * beyond
    assert all("has the offset 7" in fault for fault in faults)


def test_it_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    encrypted = {"bootstrap.servers": "not used here:9092", "security.protocol": "SASL_SSL"}
    config = configure(tmp_path, "not used here:9092", kafka=encrypted)
    done = subprocess.run(
        [sys.executable, "-m", "devkit.witness", "--bootstrap-server", "no:1", "--config", config],
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("encrypted: use a listener without TLS\n")
