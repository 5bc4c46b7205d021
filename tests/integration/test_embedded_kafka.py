"""The embedded Kafka is a real one: with its groups, its disk and its failures."""

import socket
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError, tools
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker

GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


def produce(servers: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(30) == 0, "records were not acknowledged"


def consume(servers: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=90)
    finally:
        consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def test_what_is_produced_is_consumed_by_a_group(any_kafka: EmbeddedKafka, topic_name: str) -> None:
    any_kafka.create_topic(topic_name)
    produce(any_kafka.bootstrap_servers, topic_name, ["a", "b", "c"])
    assert consume(any_kafka.bootstrap_servers, topic_name, 3) == ["a", "b", "c"]


def test_kafkas_own_tool_sees_the_same_end_of_the_log(
    any_kafka: EmbeddedKafka, topic_name: str
) -> None:
    any_kafka.create_topic(topic_name)
    produce(any_kafka.bootstrap_servers, topic_name, ["a", "b", "c"])
    done = tools.run(
        any_kafka.version,
        GET_OFFSETS,
        *("--bootstrap-server", any_kafka.bootstrap_servers, "--topic", topic_name),
    )
    assert done.stdout == f"{topic_name}:0:3\n"


def test_a_tool_that_fails_says_why(kafka: EmbeddedKafka) -> None:
    with pytest.raises(EmbeddedKafkaError, match=r"exit code 1.*no-such-option"):
        tools.run(kafka.version, GET_OFFSETS, "--no-such-option")


def test_deleted_records_leave_the_disk_within_seconds(
    any_kafka: EmbeddedKafka, topic_name: str
) -> None:
    any_kafka.create_topic(topic_name, config={"segment.bytes": "1048576"})  # Kafka 4's least
    produce(any_kafka.bootstrap_servers, topic_name, ["x" * 10_000] * 500)
    before = any_kafka.disk_bytes(topic_name)
    assert before > 5_000_000
    cutoff = TopicPartition(topic_name, 0, 450)
    admin = any_kafka.admin()
    admin.delete_records([cutoff])[cutoff].result(30)
    # Before Kafka 3.8 a broker's cleaning starts no sooner than 30 s after the broker itself.
    wait_until(
        lambda: any_kafka.disk_bytes(topic_name) < 2_000_000, "the segments are gone", seconds=60
    )


def test_a_share_group_consumes(kafka: EmbeddedKafka, topic_name: str) -> None:
    kafka.create_topic(topic_name)
    produce(kafka.bootstrap_servers, topic_name, ["a", "b"])
    group = f"{topic_name}-share"
    _read_from_the_start(kafka.admin(), group)
    done = tools.run(
        kafka.version,
        SHARE_CONSUMER,
        *("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic_name),
        *("--group", group, "--max-messages", "2", "--timeout-ms", "60000"),
    )
    assert done.stdout.split() == ["a", "b"]


def _read_from_the_start(admin: AdminClient, group: str) -> None:
    setting = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[setting])
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_data_and_port_survive_a_kill_and_a_clean_stop(
    own_kafka: OwnKafka, topic_name: str
) -> None:
    with own_kafka(log_dirs=2) as kafka:
        servers = kafka.bootstrap_servers
        kafka.create_topic(topic_name, partitions=2)
        assert {len(list(each.glob(f"{topic_name}-*"))) for each in kafka.nodes[0].log_dirs} == {1}
        produce(servers, topic_name, ["a"])

        kafka.nodes[0].kill()
        assert not kafka.nodes[0].running
        kafka.nodes[0].start()
        produce(servers, topic_name, ["b"])

        kafka.nodes[0].stop()
        assert not kafka.nodes[0].running
        kafka.nodes[0].start()
        assert kafka.bootstrap_servers == servers
        assert consume(servers, topic_name, 2) == ["a", "b"]


def test_a_paused_broker_keeps_its_port_open_and_answers_when_it_is_resumed(
    three_kafka: EmbeddedKafka,
) -> None:
    node = three_kafka.nodes[0]
    host, port = node.bootstrap_server.split(":")
    node.pause()
    # It begins to connect at once: before the pause it could learn of the other brokers.
    admin = AdminClient({"bootstrap.servers": node.bootstrap_server, "log_level": 0})
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)
    finally:
        node.resume()
    assert admin.list_topics(timeout=60).cluster_id == three_kafka.cluster_id


def test_when_any_broker_of_three_is_killed_the_others_go_on(
    three_kafka: EmbeddedKafka, topic_name: str
) -> None:
    three_kafka.create_topic(topic_name, config={"min.insync.replicas": "2"})
    admin = three_kafka.admin()

    def leader() -> int:
        return int(
            admin.list_topics(topic_name, timeout=30).topics[topic_name].partitions[0].leader
        )

    victim = next(node for node in three_kafka.nodes if node.node_id == leader())
    victim.kill()
    produce(three_kafka.bootstrap_servers, topic_name, ["a", "b"])
    assert leader() != victim.node_id
    assert consume(three_kafka.bootstrap_servers, topic_name, 2) == ["a", "b"]
    victim.start()
    wait_until(
        lambda: set(admin.list_topics(timeout=30).brokers) == {1, 2, 3},
        "each broker knows that it is back",
    )
