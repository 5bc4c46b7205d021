"""What the daemon answers to a command of its own user: from its last cycle, or not at all.

Invariant: whoever is answered would have read the same a moment ago. So the daemon gives no answer
to a command with another configuration, after a cycle that failed, or once an operator has done
something since.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

import pyarrow as pa
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from retentiond.clock import now_ms, seconds_since_boot
from retentiond.config import Config
from retentiond.config.fingerprint import fingerprint, proof
from retentiond.errors import RetentiondError
from retentiond.history.entries import FinishedCycle
from retentiond.snapshot import Snapshot
from retentiond.state.operator_actions import has_acted_since, read_pause
from retentiond.tell import logs
from retentiond.tell.local_socket import KEY, PROOF, listen
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus, Server

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)  # without slots, because of the cached property
class LastCycle:
    """A cycle that has made a plan, by which configuration, and when it began (seconds since the
    host booted). Between two questions its commits are compressed: a cluster may have millions."""

    config: Config
    report: CycleReport
    _began_s: float
    _reading: Snapshot  # without commits
    _commits: pa.Buffer

    @classmethod
    def of(cls, config: Config, report: CycleReport, finished: FinishedCycle) -> LastCycle:
        """Of a cycle that has just ended."""
        began_s = seconds_since_boot() - finished.took_ms / 1000
        commits, sink = finished.snapshot.commits, pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, commits.schema, options=_COMPRESSED) as writer:
            writer.write_table(commits)
        reading = replace(finished.snapshot, commits=commits.schema.empty_table())
        return cls(config, report, began_s, reading, sink.getvalue())

    @property
    def age_ms(self) -> int:
        return round(1000 * (seconds_since_boot() - self._began_s))

    @property
    def snapshot(self) -> Snapshot:
        return replace(self._reading, commits=pa.ipc.open_stream(self._commits).read_all())

    @cached_property
    def fingerprint(self) -> bytes:
        return fingerprint(self.config)


Answers = Mapping[str, Callable[[LastCycle, Mapping[str, str]], str]]
"""By question: from the last cycle, and what is asked about, the text that a command prints. It may
raise `RetentiondError`, where only a reading can tell."""


class Answering:
    """Answers them over the socket in ``state_dir``. Without one, which is logged, and without
    ``answers`` it does nothing, and commands read the cluster themselves."""

    def __init__(self, status: DaemonStatus, state_dir: Path, answers: Answers) -> None:
        self._status, self._state_dir, self._answers = status, state_dir, answers
        self._last: LastCycle | None = None
        self._server: Server | None = None
        if not answers:
            return
        try:
            listener = listen(state_dir)
        except OSError as error:
            why = error.strerror or str(error)
            structlog.get_logger().warning(logs.NO_SOCKET, state_dir=str(state_dir), error=why)
        else:
            self._server = Server(Starlette(routes=[Route("/{question}", self._respond)]), listener)

    def start(self) -> None:
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def see(self, config: Config, report: CycleReport, finished: FinishedCycle) -> None:
        """A cycle has made a plan by this configuration, and has just ended."""
        if self._server is not None:
            self._last = LastCycle.of(config, report, finished)

    def _respond(self, request: Request) -> Response:
        cycle, about = self._last, dict(request.query_params)
        answer = self._answers.get(request.path_params["question"])
        if cycle is None or answer is None:
            why = "it has no plan yet" if answer else "it does not know the question"
            return PlainTextResponse(why, HTTPStatus.SERVICE_UNAVAILABLE)
        for why in self._doubts(cycle, about):
            return PlainTextResponse(why, HTTPStatus.CONFLICT)
        try:
            return PlainTextResponse(answer(cycle, about))
        except RetentiondError as error:
            return PlainTextResponse(str(error), HTTPStatus.NOT_FOUND)

    def _doubts(self, cycle: LastCycle, about: Mapping[str, str]) -> Iterator[str]:
        """Why a reading could tell something else."""
        shown, expected = about.get(PROOF, ""), proof(cycle.fingerprint, about.get(KEY, ""))
        if not hmac.compare_digest(shown.encode(), expected.encode()):
            yield "its last plan was made by another configuration, or by another version"
        if self._status.problem is not None:
            yield f"its last cycle failed ({self._status.problem})"
        if (stuck := self._status.stuck()) is not None:
            yield f"its cycles are stuck ({stuck})"
        pause, plan = read_pause(self._state_dir), cycle.report.plan
        was_paused = None if pause is None else str(pause)
        since_ms = min(plan.planned_at_ms, now_ms() - cycle.age_ms)  # the clock may have been set
        if was_paused != plan.paused or has_acted_since(self._state_dir, since_ms):
            yield "an operator has done something since its last plan"
