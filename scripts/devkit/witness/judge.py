"""What passed and what was configured go in, sentences about what is wrong come out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from devkit.witness.answers import EVIDENCE, TELL_CLUSTER, Answers, At
from devkit.witness.deletion import Deletion
from devkit.witness.exchanges import Exchange, Frame
from devkit.witness.words import Document, words_for

CERTAIN = {0, 1, 3, 5, 6, 17, 29, 44, 74, 75, 76}
"""Kafka's codes for a request that a broker has certainly applied, or certainly not."""

READS = EVIDENCE | {
    *TELL_CLUSTER,
    *("api_versions", "sasl_handshake", "sasl_authenticate", "find_coordinator"),
    *("describe_configs", "describe_log_dirs", "describe_quorum"),
    *("describe_topic_partitions", "list_partition_reassignments", "describe_acls"),
}
"""Nothing but these and DeleteRecords may pass."""


@dataclass
class Verdict:
    """``requests``: how many DeleteRecords were seen, and ``deletions``: of how many partitions;
    ``faults``: what is wrong, a sentence each."""

    requests: int = 0
    deletions: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        self.requests += other.requests
        self.deletions += other.deletions
        self.faults += other.faults

    def __str__(self) -> str:
        if not self.requests and not self.faults:
            return "the witness on the wire saw no DeleteRecords request"
        found = f"{len(self.faults)} faults" if self.faults else "each is proven"
        return (
            f"the witness on the wire saw {self.requests} DeleteRecords requests, of "
            f"{self.deletions} offsets: {found}"
        )


class Judge:
    """Of one cluster. Clients with names of their own are judged one by one."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int], Exchange] = {}
        self._clients: defaultdict[str, Client] = defaultdict(Client)

    def verdict(self, frames: Iterable[Frame], configured: Collection[Document]) -> Verdict:
        """About these; what was seen before them counts, too. A request is judged by what had
        passed when it did."""
        verdict = Verdict()
        for frame in frames:
            if not frame.is_answer:
                asked = self._asked[frame.key] = Exchange.of(frame)
                if asked.api == "delete_records":
                    verdict.add(self._clients[asked.client].judged(asked, configured))
                elif asked.api not in READS:
                    verdict.faults.append(f"{asked}: no request by which retentiond reads")
            elif request := self._asked.pop(frame.key, None):
                self._clients[request.client].learn(request.answered_by(frame))
        return verdict


class Client:
    """What one has been answered, and what it has requested, also in processes before this."""

    def __init__(self) -> None:
        self._answers = Answers()
        self._requested: dict[At, Deletion] = {}
        """The last request, unless it has certainly been applied, or refused."""

    def learn(self, by: Exchange) -> None:
        self._answers.learn(by)
        if by.api != "delete_records" or by.answer is None:
            return
        for topic in by.answer.topics:
            for part in topic.partitions:
                at = topic.name, part.partition_index
                deletion = self._requested.get(at)
                if deletion is None or deletion.by.asked != by.asked:
                    continue
                if part.error_code.value in CERTAIN:
                    del self._requested[at]
                else:
                    self._requested[at] = replace(deletion, by=by)

    def judged(self, by: Exchange, configured: Collection[Document]) -> Verdict:
        if by.request is None:
            return Verdict(1, 0, [f"{by}: not to be decoded"])
        verdict = Verdict(requests=1)
        for topic in by.request.topics:
            words = words_for(topic.name, configured)
            for part in topic.partitions:
                at = topic.name, part.partition_index
                deletion = Deletion(by, at, part.offset, self._answers)
                faults = [*deletion.faults(words), *deletion.repeats(self._requested.get(at))]
                verdict.add(Verdict(0, 1, [f"{deletion}: {fault}" for fault in faults]))
                self._requested[at] = deletion
        return verdict
