"""Logs go to stderr: JSON lines where that is no terminal, readable else."""

from __future__ import annotations

import logging
import sys

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
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=level, format="%(name)s %(message)s")
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)
