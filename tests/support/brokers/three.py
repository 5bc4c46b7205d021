"""Three real brokers, and what may happen to them: leaders move, brokers die and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

import kafka.errors as kp_errors
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import ElectionType as ConfluentElection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import PartitionMetadata
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.protocol.admin.topics import ElectionType

from devkit.embedded import EmbeddedKafka, Node
from tests.contract.real import RealDriver
from tests.support.waiting import eventually

OFFSETS_TOPIC = "__consumer_offsets"

BROKERS = frozenset({1, 2, 3})

TIMEOUT_S = 30.0


class Three:
    """The cluster in its own hands; after each block and call it is whole again."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self.driver = RealDriver(kafka)
        self._admin = kafka.admin()

    def close(self) -> None:
        self.driver.close()

    def node(self, broker: int) -> Node:
        return next(node for node in self.kafka.nodes if node.node_id == broker)

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        found = self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        return dict(sorted(found.items()))

    def leader(self, topic: str, partition: int = 0) -> int:
        """-1: there is none."""
        leader: int = self.partitions(topic)[partition].leader
        return leader

    def create_topic(self, name: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Partitions on chosen brokers, led by the first of them."""
        self.kafka.create_topic(name, len(replicas), replication_factor=1)
        self.place(name, replicas)

    def place(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Returns when the partitions have just these replicas, all in sync, the first leading.

        One thing after the other, and each asked for once it can be had. Every reassignment gives a
        partition a new epoch, and refuses the return of a replica that its leader has asked for in
        the one before: asked for again and again, it keeps a slow replica out of sync for ever.
        """
        asked = False

        def missing() -> str:
            nonlocal asked
            try:
                # A client made now knows no broker by what it was before it died.
                with closing(self._new_python_admin()) as admin:
                    asked = asked or self._reassigned(admin, topic, replicas)
                    if not asked:
                        return "the controller has not taken the reassignment"
                    return self._nearly_placed(admin, topic, replicas)
            except (kp_errors.RetriableError, kp_errors.UnknownBrokerIdError) as error:
                return f"{type(error).__name__}: {error}"  # a broker is not back yet, for one

        eventually(missing, lambda what: what == "")

    def _new_python_admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)

    @staticmethod
    def _reassigned(
        admin: KafkaAdminClient, topic: str, replicas: Mapping[int, Sequence[int]]
    ) -> bool:
        at = {PythonPartition(topic, number): list(on) for number, on in replicas.items()}
        answers = admin.alter_partition_reassignments(at)
        return all(error is None for error in answers.values())

    def _nearly_placed(
        self, admin: KafkaAdminClient, topic: str, replicas: Mapping[int, Sequence[int]]
    ) -> str:
        """What is still missing, or nothing; a leader is asked for where only that is missing."""
        to_lead = []
        partitions = self.partitions(topic)
        for number, on in replicas.items():
            found = partitions[number]
            where = f"{topic}-{number}"
            if list(found.replicas) != list(on):
                return f"{where} has the replicas {found.replicas} and not yet {list(on)}"
            if out := set(on) - set(found.isrs):
                return f"{where} has {sorted(out)} out of sync (leader {found.leader})"
            if found.leader != on[0]:
                to_lead.append(number)
        if not to_lead:
            return ""
        admin.elect_leaders(ElectionType.PREFERRED, {topic: to_lead}, raise_errors=False)
        return f"{topic}: {on[0]} does not lead {to_lead} yet"

    def lead(self, topic: str, leader: int) -> None:
        """Every partition on all brokers, led by this one."""
        others = sorted(BROKERS - {leader})
        self.place(topic, {partition: [leader, *others] for partition in self.partitions(topic)})

    def elect_uncleanly(self, topic: str, leader: int) -> None:
        """Returns when this broker leads the topic's partitions, in sync or not: the others of
        their replicas are dead, though the cluster may not have noticed yet."""
        partitions = [ConfluentPartition(topic, number) for number in self.partitions(topic)]

        def elected() -> bool:
            with suppress(KafkaException):
                self._admin.elect_leaders(ConfluentElection.UNCLEAN, partitions).result(TIMEOUT_S)
            return all(found.leader == leader for found in self.partitions(topic).values())

        eventually(elected)

    def read(self, group: str, topic: str, count: int) -> None:
        """The group reads so many records from the start of partition 0, and commits."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
            }
        )
        with closing(consumer):
            consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
            messages = consumer.consume(count, TIMEOUT_S)
            assert [message.offset() for message in messages] == list(range(count))
            consumer.commit(message=messages[-1], asynchronous=False)

    @contextmanager
    def paused_before_its_election(self, topic: str, broker: int) -> Iterator[Callable[[], None]]:
        """The topic's partitions, on all brokers and led by another one, are to be led by this
        one, which stands still since before that was decided; the yielded function resumes it."""
        replicas = [broker, *sorted(BROKERS - {broker})]
        partitions = list(self.partitions(topic))
        with closing(self._new_python_admin()) as admin:
            admin.alter_partition_reassignments(
                {PythonPartition(topic, partition): replicas for partition in partitions}
            )
        eventually(lambda: all(p.replicas == replicas for p in self.partitions(topic).values()))
        node, witness = self.node(broker), self.node(replicas[1])
        with closing(KafkaAdminClient(bootstrap_servers=witness.bootstrap_server)) as admin:
            admin.describe_cluster()  # else it would learn of a "controller" now, any broker
            admin._controller_id = witness.node_id
            node.pause()
            try:
                admin.elect_leaders(ElectionType.PREFERRED, {topic: partitions})
                yield node.resume
            finally:
                node.resume()

    @contextmanager
    def killed(self, broker: int) -> Iterator[None]:
        """Returns at once; the cluster notices it seconds later (`fenced`)."""
        self.node(broker).kill()
        try:
            yield
        finally:
            self.node(broker).start()
            eventually(self._is_whole)

    @contextmanager
    def paused(self, broker: int, *, at_once: bool = True) -> Iterator[Callable[[], None]]:
        """It stands still from now on, or, not ``at_once``, from when the yielded function is
        called."""
        pause = self.node(broker).pause
        try:
            if at_once:
                pause()
            yield pause
        finally:
            self.node(broker).resume()
            eventually(self._is_whole)

    def _is_whole(self) -> bool:
        """All are alive, and could lead whatever they have a replica of."""
        metadata = self._admin.list_topics(timeout=TIMEOUT_S)
        return metadata.brokers.keys() == BROKERS and all(
            found.leader != -1 and set(found.isrs) == set(found.replicas)
            for topic in metadata.topics.values()
            for found in topic.partitions.values()
        )

    def fenced(self, broker: int) -> bool:
        return broker not in self._alive()

    def _alive(self) -> frozenset[int]:
        return frozenset(self._admin.list_topics(timeout=TIMEOUT_S).brokers)
