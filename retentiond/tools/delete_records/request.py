"""Deletes the pending items, and puts the outcomes in an operator's words.

`retentiond.act.request` sends the request. The command has no journal and no evidence that could
grow too old. The audit log gets one row before the request and one after it; the request's id is
the subject of both. The row also has the command line, which has names of files and no secrets.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Protocol

from retentiond.act.request import (
    Requester,
    WantedDeletion,
    no_objection,
    not_attempted,
    read_log_starts,
)
from retentiond.clock import Stop
from retentiond.errors import OtherCluster, StateError, UsageError
from retentiond.kafka.interface import DeleteAnswer, Kafka, Target
from retentiond.model import DeletionOutcome, Outcome, TopicPartition
from retentiond.state.operator_actions import action_now, read_pause, record_action
from retentiond.state_places import make_state_dir
from retentiond.tools.delete_records.partitions import Item


class DeletingKafka(Kafka, Protocol):
    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, DeleteAnswer]: ...


def delete(
    kafka: DeletingKafka,
    items: Sequence[Item],
    timeout_s: float,
    stop: Stop | None = None,
    *,
    objection: Callable[[], str | None] = no_objection,
) -> list[Item]:
    """Deletes the pending items. Returns all items in order, with their outcomes. ``objection``:
    as of `Requester`."""
    wanted = [
        WantedDeletion(item.at, item.topic_id, item.target)
        for item in items
        if item.is_pending and item.target is not None
    ]
    requester = Requester(
        look=kafka.look_before_deleting,
        send=partial(kafka.delete_up_to, timeout_s=timeout_s),
        read_back=lambda unclear: read_log_starts(kafka, unclear),
        stop=stop or Event(),
        objection=objection,
    )
    try:
        outcomes = requester.request(wanted)
    except OtherCluster as error:
        outcomes = [not_attempted(deletion.at, str(error)) for deletion in wanted]
    settled = {deletion.at: outcome for deletion, outcome in zip(wanted, outcomes, strict=True)}
    return [_settled(item, settled[item.at]) if item.is_pending else item for item in items]


def _settled(item: Item, outcome: DeletionOutcome) -> Item:
    if outcome.outcome in (Outcome.FAILED, Outcome.NOT_ATTEMPTED):
        return item.failed(f"{outcome.error}; nothing was deleted")
    error = outcome.error
    if outcome.outcome is Outcome.UNKNOWN:
        error = f"{error}; it may be done yet, so look at the log start offset later"
    return replace(item, outcome=outcome.outcome, low_watermark=outcome.low_watermark, error=error)


class RequestAudit:
    """Records a request and its outcome in the audit log. ``unrecorded``: why the outcome could not
    be written, or None."""

    def __init__(self, state_dir: Path) -> None:
        """Raises `UsageError` while deletions are paused in this state directory."""
        _refuse_paused(state_dir)
        self._state_dir = state_dir
        self._request_id = uuid.uuid4().hex
        self.unrecorded: StateError | None = None

    def requested(self, servers: str, items: Sequence[Item]) -> None:
        """Records the partitions that are to be deleted from, and returns once that is on disk.
        Raises `StateError`, and `UsageError` if deletions have been paused meanwhile; then nothing
        can be deleted."""
        _refuse_paused(self._state_dir)
        make_state_dir(self._state_dir)
        partitions = [
            {"topic": item.topic, "partition": item.partition, "offset": item.written_target}
            for item in items
            if item.is_pending
        ]
        self._record(
            "delete-records", partitions, arguments=sys.argv[1:], bootstrap_servers=servers
        )

    def objection(self) -> str | None:
        """Why no request may go out now: somebody has paused deletions meanwhile."""
        pause = read_pause(self._state_dir)
        return None if pause is None else str(pause)

    def settled(self, items: Sequence[Item]) -> None:
        """Records the outcomes, also of partitions for which no request went out. The records are
        gone by now, so an error is kept until the result was shown."""
        partitions = [
            {
                "topic": item.topic,
                "partition": item.partition,
                "outcome": item.outcome.value,
                "low_watermark": item.low_watermark,
                "error": item.error,
            }
            for item in items
        ]
        try:
            self._record("delete-records-outcome", partitions)
        except StateError as error:
            self.unrecorded = error

    def _record(
        self, action: str, partitions: Sequence[Mapping[str, object]], **asked: object
    ) -> None:
        detail = json.dumps({**asked, "partitions": partitions})
        record_action(self._state_dir, action_now(action, self._request_id, detail))


def _refuse_paused(state_dir: Path) -> None:
    pause = read_pause(state_dir)
    if pause is not None:
        raise UsageError(f"nothing is deleted: {pause}; see `retentiond resume`")
