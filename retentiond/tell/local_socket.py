"""The socket in ``state_dir`` over which a command asks the daemon that runs beside it.

Only the daemon's own user may open it, so there is no password and no TLS. It is in a folder that
nobody else may enter, because a socket's own mode comes only after it has its name.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode

from retentiond.background import in_background
from retentiond.config import Config
from retentiond.config.fingerprint import fingerprint, proof

KEY, PROOF = "key", "proof"
"""Of the configuration that the command has read."""

FOLDER, NAME = "socket", "daemon"

ANSWER_S = 0.9
"""How long an answer may take. It saves seconds, or it is of no use."""

MOST_CHARS = 100
"""How long a socket's path may be on every system, with room to spare."""


class NoAnswer(Exception):
    """A daemon is there, and has not answered; ``str()`` says why."""


def listen(state_dir: Path) -> socket.socket:
    """For the holder of the state's lock, so whatever is there is of a daemon that has ended.
    Raises OSError."""
    (state_dir / FOLDER).mkdir(mode=0o700, exist_ok=True)
    with _folder(state_dir) as folder:
        os.fchmod(folder, 0o700)  # Kubernetes opens a volume's folders to a group at each start
        with suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(_address(state_dir, folder))
            os.chmod(NAME, 0o600, dir_fd=folder)
            listener.listen()
        except OSError:
            listener.close()
            raise
    return listener


def ask(config: Config, question: str, about: Mapping[str, str]) -> str | None:
    """What the daemon answers; None if none runs here for this user, or if it knows nothing of what
    is asked about. Raises `NoAnswer`."""
    try:
        connection = _connected(config.state_dir)
    except OSError:
        return None
    key = secrets.token_hex(16)
    about = {**about, KEY: key, PROOF: proof(fingerprint(config), key)}
    with closing(connection):
        answer = in_background(lambda: _exchange(connection, question, about), "ask")
        try:
            status, text = answer.result(ANSWER_S)
        except FutureTimeoutError:
            raise NoAnswer(f"it has not answered within {ANSWER_S:g} s") from None
        except (OSError, HTTPException) as error:
            raise NoAnswer(str(error) or type(error).__name__) from None
    if status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise NoAnswer(text)
    return text if status == HTTPStatus.OK else None


def _exchange(
    connection: socket.socket, question: str, about: Mapping[str, str]
) -> tuple[int, str]:
    http = HTTPConnection("localhost")
    http.sock = connection
    http.request("GET", f"/{question}?{urlencode(about)}")
    answer = http.getresponse()
    return answer.status, answer.read().decode()


def _connected(state_dir: Path) -> socket.socket:
    """To a daemon of this user: another one's folder could lead anywhere."""
    with _folder(state_dir) as folder:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{state_dir / FOLDER} is not this user's alone")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_S)
            connection.connect(_address(state_dir, folder))
        except OSError:
            connection.close()
            raise
    return connection


@contextmanager
def _folder(state_dir: Path) -> Iterator[int]:
    fd = os.open(state_dir / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def _address(state_dir: Path, folder: int) -> str:
    """Linux reaches a path that is too long for a socket by the descriptor of its folder."""
    path = str(state_dir / FOLDER / NAME)
    is_short = len(os.fsencode(path)) <= MOST_CHARS
    return path if is_short else f"/proc/self/fd/{folder}/{NAME}"
