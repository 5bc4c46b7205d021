"""Logs as they reach stderr."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retentiond.model import Reason
from retentiond.tell import logs
from retentiond.tell.cycle_log import log_report
from retentiond.tell.report import figures
from tests.support.builders.reports import report, row
from tests.support.command_here import logging_kept


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with logging_kept():
        yield


def test_where_stderr_is_no_terminal_a_line_is_one_json_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure()
    structlog.get_logger().info(logs.CYCLE, **figures(report([row("orders")])))
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert (line["event"], line["level"], line["records_planned"]) == (
        "retentiond.cycle",
        "info",
        90,
    )
    assert line["timestamp"].endswith("Z")


def test_the_cycles_line_says_once_which_readers_and_offsets_could_not_be_read() -> None:
    refused = "group etl could not be read (it may not be described: grant DESCRIBE on it)"
    no_leader = "the partition's offsets could not be read (it has no leader)"
    unreadable = [
        replace(row("orders", partition, Reason.GROUP_UNREADABLE), detail=refused)
        for partition in (0, 1)
    ]
    offsets = replace(row("clicks", 0, Reason.OFFSET_UNREADABLE), detail=no_leader)

    told = figures(report([*unreadable, offsets, row("payments", 0, Reason.NO_GROUP)]))

    assert told["unreadable"] == [refused, f"clicks: {no_leader}"]
    assert "unreadable" not in figures(report([row("orders")]))


def test_an_exception_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    try:
        int("out of luck")
    except ValueError:
        structlog.get_logger().error(logs.CYCLE_FAILED, error="out of luck", exc_info=True)
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "ValueError: invalid literal" in json.loads(captured.err)["exception"]


@pytest.mark.parametrize(("debug", "shown"), [(False, False), (True, True)])
def test_details_are_logged_with_debug_only(
    capsys: pytest.CaptureFixture[str], debug: bool, shown: bool
) -> None:
    logs.configure(debug=debug)
    structlog.get_logger().debug("retentiond.detail")
    assert ("retentiond.detail" in capsys.readouterr().err) is shown


@pytest.mark.parametrize("library", logs.NOISY)
def test_libraries_are_silent_without_debug(library: str) -> None:
    logs.configure()
    assert not logging.getLogger(f"{library}.part").isEnabledFor(logging.CRITICAL)
    logs.configure(debug=True)
    assert logging.getLogger(f"{library}.part").isEnabledFor(logging.DEBUG)


def test_a_request_that_the_end_of_the_daemon_cancels_is_no_bug(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure()
    server = logging.getLogger("uvicorn.error")
    server.error("Cancel 1 running task(s), timeout graceful shutdown exceeded")
    server.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    assert capsys.readouterr().err == ""


def test_what_a_library_logs_has_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    try:
        int("out of luck")
    except ValueError:
        logging.getLogger("asyncio").exception("a task\nfailed")
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    line = json.loads(captured.err)
    assert (line["logger"], line["level"], line["event"]) == ("asyncio", "error", "a task\nfailed")
    assert "ValueError: invalid literal" in line["exception"]
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize(("debug", "lines"), [(False, 0), (True, 1)])
def test_what_py4j_says_to_the_root_logger_is_shown_with_debug_only(
    capsys: pytest.CaptureFixture[str], debug: bool, lines: int
) -> None:
    logs.configure(debug=debug)
    file = "/site-packages/py4j/java_gateway.py"
    record = logging.LogRecord("root", logging.ERROR, file, 1059, "Exception", None, None)
    logging.getLogger().handle(record)
    assert capsys.readouterr().err.count("\n") == lines


def test_a_list_in_a_line_is_a_few_and_how_many_more(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    problems = tuple(f"topic-{number}: DESCRIBE is not granted" for number in range(5_000))
    log_report(structlog.get_logger(), report(problems=problems), each_deletion=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["problems"] == [*problems[:5], "and 4995 more"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sentence=st.text(max_size=60),
    times=st.integers(1, 200),
    level=st.sampled_from(["info", "warning", "error"]),
)
def test_no_line_is_longer_than_what_a_container_runtime_takes_whole(
    capsys: pytest.CaptureFixture[str], sentence: str, times: int, level: str
) -> None:
    """Whatever 5,000 topics have to say."""
    logs.configure()
    told = [f"{number}: {sentence * times}" for number in range(5_000)]
    rows = [row(f"topic-{number}") for number in range(50)]
    planned = replace(report(rows, problems=tuple(told)), unnamed_readers=tuple(told))
    log = structlog.get_logger()
    getattr(log, level)(logs.CONFIG_RELOADED, added=told, error=sentence * times * 500)
    log_report(log, planned, each_deletion=True)
    for line in capsys.readouterr().err.splitlines():
        assert len(line.encode()) <= 16_384
        assert json.loads(line)["event"].startswith("retentiond.")
