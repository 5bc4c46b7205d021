"""The command line in this process: its real entry point, without the 2 s of a new Python."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import structlog

from retentiond.cli.main import main
from retentiond.tell import logs
from tests.support.brokers.command import Done
from tests.support.shared_spark import one_session

SETTINGS_OF_A_TERMINAL = ("RETENTIOND_CONFIG", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
"""Variables that change how a configuration is looked for, or how a result looks."""


@contextmanager
def logging_kept() -> Iterator[None]:
    """What a command does to the process's logging is undone."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in logs.NOISY}
    try:
        yield
    finally:
        structlog.reset_defaults()
        root.setLevel(level)
        root.handlers[:] = handlers
        for name, old in levels.items():
            logging.getLogger(name).setLevel(old)


def exit_code(*arguments: object) -> int:
    """Of ``retentiond`` with these arguments."""
    with mock.patch.object(sys, "argv", ["retentiond", *map(str, arguments)]):
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    raise AssertionError("it did not end as a command does")


def run_here(*arguments: object, cwd: Path, environment: Mapping[str, str] | None = None) -> Done:
    """As `tests.support.brokers.command.run`: to its end, in that folder, without a terminal."""
    with (
        one_session(),
        logging_kept(),
        chdir(cwd),
        mock.patch.dict(os.environ, environment or {}),
        mock.patch.object(sys, "stdin", io.StringIO()),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        for name in set(SETTINGS_OF_A_TERMINAL) - set(environment or {}):
            os.environ.pop(name, None)
        code = exit_code(*arguments)
    return Done(code, out.getvalue(), err.getvalue())
