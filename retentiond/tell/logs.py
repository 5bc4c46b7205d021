"""Logs go to stderr, as readable lines if it is a terminal, else as JSON lines.

Libraries log through the standard library; their lines have the same form. A failure that lasts is
logged once for each cause (`Causes`).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.formatting import MOST_TOLD, few, printable
from retentiond.tell.log_writer import LogWriter

if TYPE_CHECKING:
    from retentiond.config import Config

NOISY = ("kafka", "py4j", "apscheduler", "uvicorn", "pyspark")
"""Libraries that log every retry. retentiond logs such a failure once, in its own words."""


def write_aside() -> None:
    """Writes stderr on a thread of its own from now on (`LogWriter`). For long-running commands."""
    if sys.stderr is None or isinstance(sys.stderr, LogWriter):
        return
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # not a file, so no reader can hold it up
        return
    sys.stderr = cast(TextIO, LogWriter(descriptor, _dropped_line))


def dropped_lines() -> int:
    return sys.stderr.dropped if isinstance(sys.stderr, LogWriter) else 0


def _dropped_line(count: int) -> str:
    facts = {
        "lines": count,
        "event": LINES_DROPPED,
        "level": "warning",
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    }
    return json.dumps(facts) + "\n"


def configure(*, debug: bool = False) -> None:
    """Sets up logging for the process. With ``debug``, the libraries log too."""
    level = logging.DEBUG if debug else logging.INFO
    on_terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=True)
        if on_terminal
        else structlog.processors.JSONRenderer()
    )
    if on_terminal:
        renderer = _safe(renderer)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        bounded,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(_is_not_about_accept)
    if not debug:
        handler.addFilter(_is_not_from_py4j)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)
    server = logging.getLogger("uvicorn.error")
    server.setLevel(logging.DEBUG if debug else logging.ERROR)
    (server.removeFilter if debug else server.addFilter)(_is_bug)


def _is_bug(record: logging.LogRecord) -> bool:
    """Whether a page or an answer ended with an exception (status 500). A request that the end of
    the daemon cancels is no bug."""
    return record.exc_info is not None and isinstance(record.exc_info[1], Exception)


LONGEST_LINE = 15_000
"""Bytes. Container runtimes cut a line at 16 KiB, and what is left is no JSON."""

LONGEST_TEXTS = (2_000, 300, 100)
"""How many characters of a text are in a line: the first of them that makes it short enough."""

EXCEPTION = "exception"
LONGEST_EXCEPTION = 6_000
"""Of a traceback its end counts."""


def bounded(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """The event in a line of at most `LONGEST_LINE` bytes, whatever it quotes."""
    shown = event
    for characters in LONGEST_TEXTS:
        shown = {
            key: value[-LONGEST_EXCEPTION:]
            if key == EXCEPTION and isinstance(value, str)
            else _shortened(value, characters)
            for key, value in event.items()
        }
        if len(json.dumps(shown, default=repr)) <= LONGEST_LINE:
            break
    return shown


def _shortened(value: Any, characters: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        return f"{value[:characters]}… ({len(value) - characters} more characters)"
    if isinstance(value, list | tuple):
        # One more than a few: `few` has shortened it before, and says how many more there are.
        told = value if len(value) <= MOST_TOLD + 1 else few(value)
        return [_shortened(item, characters) for item in told]
    if isinstance(value, Mapping):
        return {key: _shortened(item, characters) for key, item in value.items()}
    return value


def _safe(render: structlog.typing.Processor) -> structlog.typing.Processor:
    """Makes values printable: they may quote names from elsewhere, whose control characters would
    steer the terminal. JSON escapes them anyway."""

    def safe(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        shown = {
            key: printable(value) if isinstance(value, str) and key != EXCEPTION else value
            for key, value in event.items()
        }
        return render(logger, method, shown)

    return safe


def _is_not_about_accept(record: logging.LogRecord) -> bool:
    """Drops asyncio's line about missing descriptors, which comes every second. retentiond logs it
    once (`NO_DESCRIPTORS`)."""
    return not record.getMessage().startswith("socket.accept() out of system resource")


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Drops py4j's lines about a dead JVM. They use the root logger, so its name can't tell."""
    return "py4j" not in Path(record.pathname).parts


STARTED = "retentiond.started"
"""The daemon has started: versions, bootstrap servers, interval, dry_run, state_dir, port."""

CYCLE = "retentiond.cycle"
"""One line for each cycle: its result, its figures and seconds by step."""

CYCLE_FAILED = "retentiond.cycle_failed"
"""Cycles fail: the error. Logged once for each cause, not for every try. ``failures_before``: how
many tries have failed since the previous line, for causes that were logged before."""

CYCLE_RECOVERED = "retentiond.cycle_recovered"
"""Cycles no longer fail: how many tries had failed."""

DELETION_FAILED = "retentiond.deletion_failed"
"""A deletion failed: topic, partition, outcome, error."""

DELETION_UNCLEAR = "retentiond.deletion_unclear"
"""A deletion was requested, and its outcome is unknown: topic, partition, outcome, error."""

DELETION_SETTLED = "retentiond.deletion_settled"
"""A deletion that an earlier cycle or run left open has an outcome now."""

CONFIG_RELOADED = "retentiond.config_reloaded"
"""A new configuration is in force: how many files and entries it has, and which files were added
and removed. A cycle under way requests nothing more."""

POLICY_UNREADABLE = "retentiond.policy_unreadable"
"""At a start or a reload: a fenced policy file can't be used, so the topics of its fence are held.
Its file, owner and error."""

POLICY_PASSED_OVER = "retentiond.policy_passed_over"
"""At a start or a reload: files look like policy files and are not read, because their names end
otherwise than a glob of ``policies`` says."""

HISTORY_FAILED = "retentiond.history_failed"
"""No entry can be written, or older entries can't be merged or removed. Logged once for each
cause."""

HISTORY_RECOVERED = "retentiond.history_recovered"
"""Entries can be written again."""

AUDIT_NOT_PRUNED = "retentiond.audit_not_pruned"
"""Old entries of the audit log can't be removed, so it grows on. Logged once for each cause."""

DELETION = "retentiond.deletion"
"""With ``audit.log``: one partition's deletion and its outcome, under the audit log's names."""

CONFIG_REFUSED = "retentiond.config_refused"
"""At a reload: a file is invalid. The old configuration stays in force. Once for each content."""

CONFIG_UNSETTLED = "retentiond.config_unsettled"
"""With ``reload.watch``: these files have not stood still for minutes, so they stay in force as
they were. Changes of other files come in. Logged once for each file."""

CONFIG_NEEDS_RESTART = "retentiond.config_needs_restart"
"""SIGHUP: these settings have changed, and the daemon reads them only at its start."""

CERTIFICATE_RENEWED = "retentiond.certificate_renewed"
"""The files of http.tls have changed: new connections get the new certificate."""

CERTIFICATE_REFUSED = "retentiond.certificate_refused"
"""The files of http.tls have changed and can't be used: the old certificate stays. Logged once."""

NO_DESCRIPTORS = "retentiond.no_descriptors"
"""The port can't accept connections, because the process or the host has no descriptor left: the
error. Logged once, until the port accepts one again."""

NO_SOCKET = "retentiond.no_socket"
"""There is no socket in state_dir, because its file system has none: the error. `explain` and
`groups` then read the cluster themselves. Logged once, at the start."""

LINES_DROPPED = "retentiond.log_lines_dropped"
"""Log lines are written again: how many were dropped while the reader stood still or the disk was
full."""

CLOCK_SET = "retentiond.clock_set"
"""The host's clock was set: by how many seconds. Cycles keep their interval."""

STOPPING = "retentiond.stopping"
"""A signal asked the daemon to end."""

STOPPED = "retentiond.stopped"
"""The daemon has ended: whether a cycle was abandoned during a reading."""


FIGURES = re.compile(r"\d+")
"""Ignored when causes are compared: a time that differs by a second is no new cause."""


def sentence_of(error: BaseException) -> str:
    """The error's sentence on one line. A bug, which is no `RetentiondError`, is named by its class
    as well."""
    sentence = " ".join(str(error).split())
    if isinstance(error, RetentiondError) and sentence:
        return sentence
    return ": ".join(part for part in (type(error).__name__, sentence) if part)


def log_files(log: Any, config: Config, passed_over: Sequence[str]) -> None:
    """The policy files of a configuration that are not, or can't be, read."""
    if passed_over:
        log.warning(POLICY_PASSED_OVER, files=list(passed_over))
    for file in config.unreadable:
        log.error(POLICY_UNREADABLE, file=file.name, owner=file.owner, error=file.problem)


class Causes:
    """The causes of one series of failures. A cause is logged when it first comes, and when it
    comes back after a cause of another kind. During an outage, connections are refused and
    unanswered in turn; a cause that comes back like that is logged only if it comes twice in a
    row."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._logged_last: str | None = None
        self._last: str | None = None
        self._last_group: tuple[type, str | None] | None = None
        self._not_logged = 0

    def repeats_before(self, error: BaseException) -> int | None:
        """None if the error need not be logged. Else how many failures were not logged since the
        last one that was."""
        kind = error.kind if isinstance(error, KafkaUnavailable) else None
        cause = kind or FIGURES.sub("#", sentence_of(error))
        group = (type(error), kind)
        is_back = cause in self._logged and group == self._last_group and cause != self._last
        is_known = cause == self._logged_last or is_back
        self._last, self._last_group = cause, group
        if is_known:
            self._not_logged += 1
            return None
        repeats, self._not_logged = self._not_logged, 0
        self._logged.add(cause)
        self._logged_last = cause
        return repeats
