"""Logs go to stderr: JSON lines where that is no terminal, readable else.

Libraries log by the standard library, and their lines have the same form.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import structlog

NOISY = ("kafka", "py4j", "apscheduler", "uvicorn", "pyspark")
"""Libraries that report every retry of theirs; retentiond says the same once, in its words."""


def configure(*, debug: bool = False) -> None:
    """Sets up structlog for the process. ``debug`` also lets the libraries speak."""
    level = logging.DEBUG if debug else logging.INFO
    on_terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=True)
        if on_terminal
        else structlog.processors.JSONRenderer()
    )
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
    if not debug:
        handler.addFilter(_is_not_of_py4j)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It reports a dead JVM to the root logger, which can't be silenced by name."""
    return "py4j" not in Path(record.pathname).parts
