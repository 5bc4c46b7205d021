"""The witness on the wire can fail: it finds each of these faults, which are made on purpose.

A mutant replaces a part of retentiond in memory, and its requests go out all the same. The witness
is to tell from what passed that they are not proven. docs/reliability.md has the table.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import retentiond.cycle
from devkit.embedded import EmbeddedKafka
from devkit.witness.witness import Witness
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
from tests.support.brokers.command import configure, consumed
from tests.support.brokers.cycles import Retentiond
from tests.support.witnessed import CONFIGURED, seen

pytestmark = pytest.mark.broker

TOO_LONG_S = 5.2
HOUR_MS = 3_600_000
NOT_READ_BACK = "was requested before, and was not read back"


class Scene:
    """Of the topic's two partitions, with ten records each, a group has read seven.

    A mutant may change ``entry``, the topic's policy, ``retentiond``, which is made of it, and what
    happens ``before_guard``. ``stack`` ends what it opens, ``own_kafka`` makes another cluster.
    """

    own_kafka: type[EmbeddedKafka]

    def __init__(self, driver: RealDriver, folder: Path, topic: str, stack: ExitStack) -> None:
        self.driver, self.folder, self.topic, self.stack = driver, folder, topic, stack
        self.group = f"readers-of-{topic}"
        self.entry = consumed(topic)
        self.retentiond: Retentiond | None = None
        self.before_guard: Callable[[], object] | None = None
        self.patch = stack.enter_context(pytest.MonkeyPatch.context())
        driver.filled_topic(topic, {self.group: 7}, partitions=2)

    def around(self, owner: Any, name: str, mutant: Callable[..., Any]) -> None:
        """The mutant gets the original before its arguments."""
        original = getattr(owner, name)
        self.patch.setattr(owner, name, lambda *args, **more: mutant(original, *args, **more))

    def changed(self, change: Callable[[dict[TopicPartition, int]], Any]) -> None:
        """What is requested."""
        self.around(
            delete_records,
            "request",
            lambda original, admin, offsets, *more: original(admin, change({**offsets}), *more),
        )

    def made(self, **more: Any) -> Retentiond:
        return Retentiond(self.driver.kafka, self.folder, self.entry, **more)

    def cycle(self) -> None:
        (self.retentiond or self.made()).cycle(before_guard=self.before_guard)


@pytest.fixture(scope="module")
def three(three_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(three_kafka)) as made:
        yield made


@pytest.fixture
def scene(driver: RealDriver, tmp_path: Path, topic_name: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(driver, tmp_path, topic_name, stack)


@pytest.fixture
def wide_scene(
    three: RealDriver, tmp_path: Path, topic_name: str, own_kafka: type[EmbeddedKafka]
) -> Iterator[Scene]:
    with ExitStack() as stack:
        made = Scene(three, tmp_path, topic_name, stack)
        made.own_kafka = own_kafka
        yield made


Mutant = Callable[[Scene], None]

MUTANTS: list[Any] = []
WIDE: list[Any] = []
"""Those that take three brokers, or another cluster."""


def finds(fault: str, among: list[Any] = MUTANTS) -> Callable[[Mutant], Mutant]:
    def add(mutant: Mutant) -> Mutant:
        among.append(pytest.param(mutant, fault, id=mutant.__name__))
        return mutant

    return add


def test_a_sound_cycle_is_proven(scene: Scene) -> None:
    seen()
    scene.cycle()
    found = seen()
    assert (found.deletions, found.faults) == (2, [])


@finds("the topic's id was asked for")
def ids_asked_earlier(scene: Scene) -> None:
    def look(original: Any, deleter: Deleter, partitions: Any, *more: Any) -> Any:
        ids = original(deleter, partitions, *more)
        deleter._ask_leaders(partitions, 3.0, 1.0)
        return ids

    scene.around(Deleter, "look", look)


@finds("before the answer to metadata")
def ids_asked_before_the_cluster(scene: Scene) -> None:
    def look(original: Any, deleter: Deleter, *args: Any) -> Any:
        ids = original(deleter, *args)
        deleter._client.describe_cluster().result(3.0)
        return ids

    scene.around(Deleter, "look", look)


@finds("was not answered since the listing")
def group_left_out_of_the_second_reading(scene: Scene) -> None:
    kept: dict[str, Any] = {}

    def commits(original: Any, kafka: Any, groups: Any, *on: Any) -> Any:
        kept.update(original(kafka, [group for group in groups if group not in kept], *on))
        return dict(kept)

    scene.around(KafkaCluster, "commits", commits)


def without_second_reading(scene: Scene) -> None:
    scene.around(retentiond.cycle, "gather_again", lambda *args, **_: replace(args[4]))


@finds("no listing of groups that was asked for within 5 s")
def second_reading_skipped(scene: Scene) -> None:
    without_second_reading(scene)
    scene.before_guard = lambda: time.sleep(TOO_LONG_S)


@finds("the topic had two ids")
def recreated_topic_overlooked(scene: Scene) -> None:
    def recreate() -> None:
        scene.driver.delete_topic(scene.topic)
        scene.driver.filled_topic(scene.topic, partitions=2)

    without_second_reading(scene)
    scene.around(Requester, "_last_look", lambda original, *args: original(*args) and {})
    scene.before_guard = recreate


@finds("no last stable offset was answered since the listing")
def evidence_used_for_two_slices(scene: Scene) -> None:
    read: list[Any] = []

    def again(original: Any, *args: Any, **more: Any) -> Any:
        read.append(replace(args[3]) if read else original(*args, **more))
        return read[-1]

    scene.patch.setattr(slices, "MOST_PARTITIONS", 1)
    scene.around(retentiond.cycle, "gather_again", again)


@finds("has no offset on the partition")
def no_commit_taken_for_the_end(scene: Scene) -> None:
    half = f"half-{scene.topic}"
    scene.driver.commit(half, {(scene.topic, 1): 9})
    end = [Commit(scene.topic, at, 9) for at in (0, 1)]
    scene.around(KafkaCluster, "commits", lambda original, *args: {**original(*args), half: end})


@finds("has no offset on the partition")
def member_without_commit_overlooked(scene: Scene) -> None:
    def members(original: Any, kafka: Any, listed: Any) -> Any:
        return dict.fromkeys(original(kafka, listed), GroupMembers(frozenset()))

    scene.around(KafkaCluster, "members", members)
    reader = scene.driver.subscribed(f"new-{scene.topic}", GroupKind.CONSUMER, [scene.topic])
    scene.stack.enter_context(reader)


@finds("has the offset 7")
def offset_beyond_a_commit(scene: Scene) -> None:
    scene.changed(lambda offsets: {at: offset + 1 for at, offset in offsets.items()})


@finds("it asks for all records")
def everything_asked_for(scene: Scene) -> None:
    scene.changed(lambda offsets: dict.fromkeys(offsets, -1))


@finds("no configuration enables the topic")
def topic_of_no_policy(scene: Scene) -> None:
    other = TopicPartition(scene.driver.filled_topic(f"other-{scene.topic}"), 0)
    scene.changed(lambda offsets: {**offsets, other: 1})


@finds("the last stable offset was answered as 10")
def open_transaction_overlooked(scene: Scene) -> None:
    def offsets(original: Any, kafka: Any, partitions: Any, bound: OffsetBound) -> Any:
        more = 3 if bound is OffsetBound.LAST_STABLE else 0
        return {at: end + more for at, end in original(kafka, partitions, bound).items()}

    scene.around(KafkaCluster, "offsets", offsets)
    scene.stack.callback(scene.driver.begin(scene.topic, 3).abort)
    scene.driver.commit(scene.group, {(scene.topic, 0): 12})


@finds(f"no offset of {HOUR_MS} ms ago was answered")
def age_not_asked(scene: Scene) -> None:
    scene.entry["retention.commitoffset.ms"] = HOUR_MS
    scene.around(KafkaCluster, "offsets_at", lambda _original, _kafka, at, *_: dict.fromkeys(at))


@finds(f"no offset of {HOUR_MS} ms ago was answered")
def age_of_another_retention(scene: Scene) -> None:
    def later(original: Any, kafka: Any, stamps: Any, *more: Any) -> Any:
        return original(kafka, {at: stamp + HOUR_MS for at, stamp in stamps.items()}, *more)

    scene.entry["retention.commitoffset.ms"] = HOUR_MS
    scene.around(KafkaCluster, "offsets_at", later)


@finds("no listing of groups that was asked for within 5 s")
def evidence_grown_old(scene: Scene) -> None:
    def look(original: Any, *args: Any) -> Any:
        time.sleep(TOO_LONG_S)
        return original(*args)

    for module in (carry_out, delete):
        scene.patch.setattr(module, "MAX_EVIDENCE_AGE_S", 60.0)
    scene.around(Deleter, "look", look)


@finds("a dry run")
def dry_run_overlooked(scene: Scene) -> None:
    scene.retentiond = scene.made(dry_run=True)
    scene.retentiond.config = scene.retentiond.config.model_copy(update={"dry_run": False})


@finds("the topic is on trial")
def trial_overlooked(scene: Scene) -> None:
    config = scene.made().config
    CONFIGURED.clear()
    scene.entry["dry_run"] = True
    scene.retentiond = scene.made()
    scene.retentiond.config = config


@finds("create_topics to broker 1: no request by which retentiond reads")
def topic_created(scene: Scene) -> None:
    def look(original: Any, *args: Any) -> Any:
        servers = scene.driver.broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "client.id": "retentiond"})
        admin.create_topics([NewTopic(f"new-{scene.topic}", 1)])[f"new-{scene.topic}"].result(30)
        return original(*args)

    scene.around(Deleter, "look", look)


@finds("answered no listing of groups", WIDE)
def broker_left_out_of_the_listing(scene: Scene) -> None:
    for number in range(8):  # some are coordinated by brokers that are asked
        scene.driver.commit(f"{number}-{scene.topic}", {(scene.topic, at): 7 for at in (0, 1)})

    async def fewer(brokers: Any, network: NetworkClient) -> Any:
        return (await brokers(network))[:-1]

    scene.around(NetworkClient, "brokers", fewer)


@finds("no listing of groups", WIDE)
def client_of_another_cluster(scene: Scene) -> None:
    other = scene.stack.enter_context(scene.own_kafka())
    deleting = scene.stack.enter_context(closing(connect(other.bootstrap_servers)))
    there = scene.stack.enter_context(closing(RealDriver(other)))
    there.filled_topic(scene.topic, {scene.group: 7}, partitions=2)
    described: Any = scene.driver.kafka.describe_topics([scene.topic])[scene.topic]

    def look(_original: Any, _kafka: Any, partitions: Any) -> Any:
        deleting._records.look_before_deleting(partitions)
        return {scene.topic: described.topic_id}

    scene.around(KafkaCluster, "look_before_deleting", look)
    scene.patch.setattr(scene.driver.kafka, "_records", deleting._records)


def second_request(scene: Scene, *, by_a_new_process: bool) -> None:
    """A follower that stands still lets the first one time out. On the wire a new process is new
    connections."""
    brokers = scene.driver.broker
    placed = brokers.admin().list_topics(scene.topic, timeout=30).topics[scene.topic]
    leaders = {partition.leader for partition in placed.partitions.values()}
    follower = next(node for node in brokers.nodes if node.node_id not in leaders)

    def send(original: Any, requester: Any, asked: Any) -> Any:
        follower.pause()
        try:
            original(requester, asked)
        finally:
            follower.resume()
        with closing(connect(brokers.bootstrap_servers)) as new:
            kafka = new if by_a_new_process else scene.driver.kafka
            kafka.look_before_deleting([request.at for request in asked])
            return original(replace(requester, send=kafka.delete_records), asked)

    scene.patch.setattr(client, "DELETE_TIMEOUT_S", 0.1)
    scene.around(Requester, "_send", send)


@finds(NOT_READ_BACK, WIDE)
def second_request_before_the_read_back(scene: Scene) -> None:
    second_request(scene, by_a_new_process=False)


@finds(NOT_READ_BACK, WIDE)
def second_request_by_a_new_process(scene: Scene) -> None:
    second_request(scene, by_a_new_process=True)


@pytest.mark.parametrize(("mutant", "fault"), MUTANTS)
def test_the_witness_finds(scene: Scene, mutant: Mutant, fault: str) -> None:
    mutant(scene)
    seen()
    scene.cycle()
    found = seen().faults
    assert any(fault in said for said in found), found


@pytest.mark.parametrize(("mutant", "fault"), WIDE)
def test_the_witness_finds_in_wide_scenes(wide_scene: Scene, mutant: Mutant, fault: str) -> None:
    test_the_witness_finds(wide_scene, mutant, fault)


def test_it_takes_little_of_a_large_cycle() -> None:
    """Sixteen megabytes in a thousand answers: more than a cycle with 4,000 partitions and 60,000
    commits reads."""
    request = struct.pack(">ihhih10s", 20, 9, 8, 1, 10, b"retentiond")
    answer = struct.pack(">ii", 16_384, 1) + bytes(16_380)
    with closing(Witness()) as witness, socket.create_server(("127.0.0.1", 0)) as broker:
        port = witness.lead(0, f"127.0.0.1:{broker.getsockname()[1]}", 1)
        with socket.create_connection(("127.0.0.1", port)) as client, broker.accept()[0] as server:
            for _ in range(1000):
                client.sendall(request)
                assert server.recv(len(request), socket.MSG_WAITALL) == request
                server.sendall(answer)
                assert client.recv(len(answer), socket.MSG_WAITALL) == answer
            used = psutil.Process(witness.pid).cpu_times()
    assert len([*witness.frames()]) == 2000
    assert 0 < used.user + used.system < 2


def start(*options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "devkit.witness", *map(str, options)],
        env={**os.environ, "PYTHONPATH": PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("beyond", [0, 1])
def test_it_stands_before_brokers_that_are_not_arranged_for_it(
    wide_scene: Scene, beyond: int
) -> None:
    """All of the daemon's traffic passes through it, whichever broker it is for."""
    servers = wide_scene.driver.broker.nodes[0].bootstrap_server
    config = configure(wide_scene.folder, servers, wide_scene.topic, dry_run=False)
    with start("--bootstrap-server", servers, "--config", config) as process:
        assert process.stdout is not None
        found = re.search(r"bootstrap.servers (\S+);", process.stdout.readline())
        assert found is not None
        with closing(connect(found[1])) as behind:
            wide_scene.patch.setattr(wide_scene.driver, "kafka", behind)
            wide_scene.changed(lambda offsets: {at: to + beyond for at, to in offsets.items()})
            wide_scene.cycle()
            seen()
        process.terminate()
        *faults, summary = process.stdout.read().splitlines()
        assert process.wait(30) == beyond
    assert " 2 offsets: " in summary
    assert len(faults) == 2 * beyond
    assert all("has the offset 7" in fault for fault in faults)


def test_it_refuses_what_it_cannot_read(tmp_path: Path, driver: RealDriver) -> None:
    servers = driver.broker.bootstrap_servers
    encrypted = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL"}
    config = configure(tmp_path, servers, kafka=encrypted)
    with start("--bootstrap-server", servers, "--config", config) as process:
        _, why = process.communicate()
    assert process.returncode == 2
    assert why.endswith("encrypted: use a listener without TLS\n")
