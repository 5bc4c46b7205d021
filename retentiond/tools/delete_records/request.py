"""Has the pending items deleted, and says what became of them in an operator's words.

`retentiond.act.request` sends the request. The command has no journal and no evidence that could
grow too old; its audit log has one row before the request and one after, with the same subject,
the request's id. The command's own words are kept there too; they hold names of files, and no
secret.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Protocol

from retentiond.act.request import (
    LogStartSource,
    Requester,
    WantedDeletion,
    not_attempted,
    read_log_starts,
)
from retentiond.clock import Stop
from retentiond.errors import OtherCluster, StateError, UsageError
from retentiond.kafka.interface import DeleteAnswer, Target
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition
from retentiond.state.operator_actions import action_now, read_pause, record_action
from retentiond.state_places import make_state_dir
from retentiond.tools.delete_records.partitions import Item


class Records(Protocol):
    """The part of `retentiond.kafka.confluent.client.LibrdkafkaClient` that is asked here."""

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]: ...

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, DeleteAnswer]: ...


def delete(
    records: Records,
    items: Sequence[Item],
    timeout_s: float,
    look_ups: Callable[[], LogStartSource],
    stop: Stop | None = None,
) -> list[Item]:
    """All items, in order; the pending ones with what became of them. ``look_ups`` gives what reads
    log starts back, where that must be."""
    wanted = [
        WantedDeletion(item.at, item.topic_id, item.target)
        for item in items
        if item.is_pending and item.target is not None
    ]
    requester = Requester(
        look=records.look_before_deleting,
        send=partial(records.delete_up_to, timeout_s=timeout_s),
        read_back=lambda unclear: read_log_starts(look_ups(), unclear),
        stop=stop or Event(),
    )
    try:
        outcomes = requester.request(wanted)
    except OtherCluster as error:
        outcomes = [not_attempted(each.at, str(error)) for each in wanted]
    settled = {each.at: outcome for each, outcome in zip(wanted, outcomes, strict=True)}
    return [_settled(item, settled[item.at]) if item.is_pending else item for item in items]


def _settled(item: Item, outcome: DeletionOutcome) -> Item:
    if outcome.outcome in (Outcome.FAILED, Outcome.NOT_ATTEMPTED):
        return item.failed(f"{outcome.error}; nothing was deleted")
    error = outcome.error
    if outcome.outcome is Outcome.UNKNOWN:
        error = f"{error}; it may be done yet, so look at the log start offset later"
    return replace(item, outcome=outcome.outcome, low_watermark=outcome.low_watermark, error=error)


REQUEST = "delete-records"

OUTCOME = "delete-records-outcome"


def request_detail(arguments: Sequence[str], servers: str, items: Sequence[Item]) -> str:
    """JSON: the partitions that will be asked for."""
    partitions = [
        {"topic": item.topic, "partition": item.partition, "offset": item.written_target}
        for item in items
        if item.is_pending
    ]
    return json.dumps(
        {"arguments": list(arguments), "bootstrap_servers": servers, "partitions": partitions}
    )


def outcome_detail(items: Sequence[Item]) -> str:
    """JSON: each partition's outcome, also of those that no request went out for."""
    return json.dumps(
        {
            "partitions": [
                {
                    "topic": item.topic,
                    "partition": item.partition,
                    "outcome": item.outcome.value,
                    "low_watermark": item.low_watermark,
                    "error": item.error,
                }
                for item in items
            ]
        }
    )


class RequestAudit:
    """``unrecorded``: why the outcome could not be written, once it could not."""

    def __init__(self, state_dir: Path) -> None:
        """Raises `UsageError` while deletions are paused there."""
        _refuse_paused(state_dir)
        self._state_dir = state_dir
        self._request_id = uuid.uuid4().hex
        self.unrecorded: StateError | None = None

    def requested(self, servers: str, items: Sequence[Item]) -> None:
        """On disk when it returns. Raises `UsageError` where somebody has paused deletions since,
        and `StateError`: then nothing may be deleted."""
        _refuse_paused(self._state_dir)
        make_state_dir(self._state_dir)
        self._record(REQUEST, request_detail(sys.argv[1:], servers, items))

    def settled(self, items: Sequence[Item]) -> None:
        """What is deleted is deleted, so a failure is kept for after the result was shown."""
        try:
            self._record(OUTCOME, outcome_detail(items))
        except StateError as error:
            self.unrecorded = error

    def _record(self, what: str, detail: str) -> None:
        record_action(self._state_dir, action_now(what, self._request_id, detail))


def _refuse_paused(state_dir: Path) -> None:
    pause = read_pause(state_dir)
    if pause is not None:
        raise UsageError(f"nothing is deleted: {pause}; see `retentiond resume`")
