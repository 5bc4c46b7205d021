"""The log while nobody reads it, or its disk is full."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from retentiond.tell.log_writer import LogWriter

WAITING = 3


def told(count: int) -> str:
    return f"{count} lines were dropped\n"


class Pipe:
    """Of one page, already full."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        size = fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 4096)
        os.write(self.writing, b"x" * (size - 1) + b"\n")

    def lines(self) -> list[str]:
        return os.read(self.reading, 1 << 20).decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for descriptor in (made.reading, made.writing):
        os.close(descriptor)


def test_whoever_logs_into_a_full_pipe_goes_on_and_lines_come_in_their_order(pipe: Pipe) -> None:
    writer = LogWriter(pipe.writing, told)
    for number in range(100):
        print(number, file=writer, flush=True)
    writer.finish(0.01)  # the end waits for no reader
    pipe.lines()
    writer.finish(60)
    assert pipe.lines() == [str(number) for number in range(100)]
    assert writer.dropped == 0


def test_what_finds_no_room_is_counted_and_told_once_lines_are_read_again(pipe: Pipe) -> None:
    writer = LogWriter(pipe.writing, told, WAITING)
    for number in range(100):
        print(number, file=writer)
    # One may be on its way to the pipe already.
    assert 100 - WAITING - 1 <= writer.dropped <= 100 - WAITING
    dropped = writer.dropped
    pipe.lines()
    writer.finish(60)
    assert f"{dropped} lines were dropped" in pipe.lines()
    print("further", file=writer)
    writer.finish(60)
    assert pipe.lines() == ["further"]


def test_a_full_disk_drops_lines_and_stops_nobody() -> None:
    disk = os.open("/dev/full", os.O_WRONLY)
    writer = LogWriter(disk, told)
    print("first", file=writer)
    print("second", file=writer)
    writer.finish(60)
    assert writer.dropped == 2
    reading, writing = os.pipe()
    os.dup2(writing, disk)  # there is space again
    print("third", file=writer)
    writer.finish(60)
    assert os.read(reading, 1000).decode() == "third\n2 lines were dropped\n"
    for descriptor in (disk, reading, writing):
        os.close(descriptor)


def test_a_descriptor_that_does_not_block_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing, False)
    writer = LogWriter(pipe.writing, told)
    print("a line", file=writer)
    pipe.lines()
    writer.finish(60)
    assert pipe.lines() == ["a line"]
    assert writer.dropped == 0
