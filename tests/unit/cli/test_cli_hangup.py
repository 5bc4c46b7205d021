"""A command that meets SIGHUP: one for a daemon of the same name, or its own terminal's."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

WAITING = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
import retentiond.cli
print("ready", flush=True)
# For a minute in all. Of a signal that comes just before a wait, Python learns after it.
any(signal.sigtimedwait([signal.SIGUSR1], 0.1) for _ in range(600))
print("done", flush=True)
"""

ARGUMENTS = [sys.executable, "-c", WAITING]


def await_said(terminal: int, words: bytes) -> None:
    """A terminal hands a line over in as many parts as it likes."""
    said = b""
    while not said.endswith(words):
        said += os.read(terminal, 100)


def hung_up_and_told_to_go_on(pid: int) -> None:
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGUSR1)


def test_a_command_without_a_terminal_outlives_a_hangup() -> None:
    with subprocess.Popen(
        ARGUMENTS, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        hung_up_and_told_to_go_on(command.pid)
        assert (command.stdout.read(), command.wait(60)) == ("done\n", 0)


@pytest.mark.parametrize("arguments", [ARGUMENTS, ["sh", "-c", '"$0" "$@"; exit $?', *ARGUMENTS]])
def test_a_command_ends_when_its_terminal_is_closed(arguments: list[str]) -> None:
    until_all_have_ended, held = os.pipe()
    os.set_inheritable(held, True)
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
        os.execvp(arguments[0], arguments)
    os.close(held)
    await_said(terminal, b"ready\r\n")
    closed_at = time.monotonic()
    os.close(terminal)
    assert os.read(until_all_have_ended, 1) == b""
    assert time.monotonic() - closed_at < 30  # by itself it would wait for a minute
    os.close(until_all_have_ended)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (-signal.SIGHUP, 128 + signal.SIGHUP)


def test_a_command_at_a_terminal_outlives_a_hangup_that_is_for_another() -> None:
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(ARGUMENTS[0], ARGUMENTS)
    await_said(terminal, b"ready\r\n")
    hung_up_and_told_to_go_on(pid)
    await_said(terminal, b"done\r\n")
    assert os.waitpid(pid, 0) == (pid, 0)
    os.close(terminal)


def test_what_nohup_ignores_stays_ignored() -> None:
    command = "import signal, retentiond.cli; print(signal.getsignal(signal.SIGHUP).name)"
    said = subprocess.run(
        ["nohup", sys.executable, "-c", command], check=True, capture_output=True, text=True
    )
    assert said.stdout == "SIG_IGN\n"
