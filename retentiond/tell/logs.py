"""Logs go to stderr: JSON lines where that is no terminal, readable else.

Libraries log by the standard library, and their lines have the same form.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

from retentiond.errors import RetentiondError
from retentiond.formatting import printable
from retentiond.tell.log_writer import LogWriter
from retentiond.tell.report import CycleReport, figures, outcome_document, row_document

NOISY = ("kafka", "py4j", "apscheduler", "uvicorn", "pyspark")
"""Libraries that report every retry of theirs; retentiond says the same once, in its words."""


def write_aside() -> None:
    """From now on whoever writes to stderr waits for no reader of it. For commands that stay."""
    if sys.stderr is None or isinstance(sys.stderr, LogWriter):
        return
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # a stream of its own, which has no reader
        return
    sys.stderr = cast(TextIO, LogWriter(descriptor, _dropped_line))


def dropped_lines() -> int:
    """How many lines could not be written since the start."""
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
    """Sets up structlog for the process. ``debug`` also lets the libraries speak."""
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
    handler.addFilter(_is_not_of_accept)
    if not debug:
        handler.addFilter(_is_not_of_py4j)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)


def _safe(render: structlog.typing.Processor) -> structlog.typing.Processor:
    """Values that quote names from elsewhere can't steer the terminal; JSON escapes them."""

    def safe(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        shown = {
            key: printable(value) if isinstance(value, str) and key != "exception" else value
            for key, value in event.items()
        }
        return render(logger, method, shown)

    return safe


def _is_not_of_accept(record: logging.LogRecord) -> bool:
    """Without a descriptor asyncio says so each second; retentiond says it once."""
    return not record.getMessage().startswith("socket.accept() out of system resource")


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It reports a dead JVM to the root logger, which can't be silenced by name."""
    return "py4j" not in Path(record.pathname).parts


STARTED = "retentiond.started"
"""The daemon runs: version, config, http address, interval, dry_run."""

CYCLE = "retentiond.cycle"
"""One canonical line for each cycle: its result, figures and seconds by step."""

CYCLE_FAILED = "retentiond.cycle_failed"
"""Cycles fail: the error. Said once for each cause, not for every try; ``failures_before``: so many
tries failed since the line before, for causes that were told."""

CYCLE_RECOVERED = "retentiond.cycle_recovered"
"""Cycles no longer fail: after how many tries."""

DELETION_UNCLEAR = "retentiond.deletion_unclear"
"""A deletion failed or its outcome is unknown: topic, partition, cutoff, error."""

DELETION_SETTLED = "retentiond.deletion_settled"
"""A deletion left open by an earlier cycle or run has an outcome now."""

CONFIG_RELOADED = "retentiond.config_reloaded"
"""SIGHUP: the new configuration is in force; of a cycle under way nothing more is requested."""

HISTORY_FAILED = "retentiond.history_failed"
"""No entry can be written, or older ones can't be looked after; said once for each cause."""

HISTORY_RECOVERED = "retentiond.history_recovered"
"""Entries can be written again."""

AUDIT_NOT_PRUNED = "retentiond.audit_not_pruned"
"""Old entries of the audit log can't be dropped, so it grows on; said once for each cause."""

DELETION = "retentiond.deletion"
"""With ``audit.log``: one partition's deletion and its outcome, under the audit log's names."""

CONFIG_REFUSED = "retentiond.config_refused"
"""SIGHUP: the file is bad; the old configuration stays in force."""

CONFIG_NEEDS_RESTART = "retentiond.config_needs_restart"
"""SIGHUP: these settings changed, and are read at start only."""

CERTIFICATE_RENEWED = "retentiond.certificate_renewed"
"""The files of http.tls have changed: new connections are shown the new certificate."""

CERTIFICATE_REFUSED = "retentiond.certificate_refused"
"""The files of http.tls have changed and can't be used: the old certificate stays. Said once."""

NO_DESCRIPTORS = "retentiond.no_descriptors"
"""The port can take no connection, as the process or the host has no descriptor left: the error.
Said once, until it takes one again."""

LINES_DROPPED = "retentiond.log_lines_dropped"
"""Lines of the log are written again: how many could not be, as its reader stood still or its disk
was full."""

CLOCK_SET = "retentiond.clock_set"
"""The host's clock was set, by so many seconds; cycles go on in their interval."""

STOPPING = "retentiond.stopping"
"""A signal asked the daemon to end."""

STOPPED = "retentiond.stopped"
"""The daemon has ended; whether a cycle was abandoned in the middle of a reading."""


def log_deletions(log: Any, report: CycleReport) -> None:
    """One line for each that was to be requested."""
    for answer in report.answers.partitions:
        if answer.outcome is not None:
            log.info(
                DELETION,
                cycle_id=report.plan.cycle_id,
                cluster_id=report.plan.cluster_id,
                **row_document(answer.row),
                **outcome_document(answer.outcome),
            )


def log_cycle(log: Any, report: CycleReport) -> None:
    """One line. It is a warning where something was planned and not done, and where something
    speaks against the evidence, also where the policy goes on in spite of it
    (``groups_visible: assumed``). It is an error where the cycle failed after it had deleted, and
    shows the whole of one that should not be."""
    if report.failure is not None:
        is_foreseen = isinstance(report.failure, RetentiondError)
        log.error(CYCLE, **figures(report), exc_info=None if is_foreseen else report.failure)
        return
    is_well = report.result == "ok" and not (report.plan.problems or report.unnamed_readers)
    say = log.info if is_well else log.warning
    say(CYCLE, **figures(report))
