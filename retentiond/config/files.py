"""The files of a configuration, read so that they belong together.

They are opened one after another, and somebody may change them meanwhile: Kubernetes replaces all
files of a ConfigMap at once, by the link ``..data``, and a mixture of two versions may delete what
both of them keep. So each path is resolved before a file is opened, and what was found and read
counts only if a second look finds the same.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from retentiond.errors import ConfigError


class ConfigFiles:
    """What one reading has found and read: names by glob, real paths and digests by path."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Path], list[str] | str] = {}
        self._real_paths: dict[Path, str] = {}
        self._digests: dict[tuple[Path, int], bytes | str] = {}  # a text says why there is none

    def find(self, pattern: str, base_dir: Path) -> list[str]:
        try:
            names = find(pattern, base_dir)
        except ConfigError as error:
            self._names[pattern, base_dir] = str(error)
            raise
        self._names[pattern, base_dir] = names
        return names

    def resolve(self, path: Path) -> str:
        """The same for the whole reading."""
        if path not in self._real_paths:
            self._real_paths[path] = os.path.realpath(path)
        return self._real_paths[path]

    def read(self, path: Path, most_bytes: int = -1) -> bytes:
        """Raises OSError for whatever is no file, and ValueError for what is no path."""
        real_path = self.resolve(path)
        try:
            content = _read(real_path, most_bytes)
        except OSError as error:
            self._digests[path, most_bytes] = str(error)
            raise
        self._digests[path, most_bytes] = sha256(content).digest()
        return content

    def is_unchanged(self) -> bool:
        """Whether another look finds the same names, the same real paths and the same contents. It
        opens no file before all are resolved."""
        again = ConfigFiles()
        for pattern, base_dir in self._names:
            with suppress(ConfigError):
                again.find(pattern, base_dir)
        for path in self._real_paths:
            again.resolve(path)
        for read in self._digests:
            with suppress(OSError):
                again.read(*read)
        return (
            again._names == self._names
            and again._real_paths == self._real_paths
            and again._digests == self._digests
        )


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _read(path: str, most_bytes: int) -> bytes:
    _refuse_all_but_files(os.stat(path))
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _refuse_all_but_files(os.fstat(file.fileno()))  # somebody may have replaced it
        return file.read(most_bytes)


def _refuse_all_but_files(status: os.stat_result) -> None:
    """Whoever opens a pipe waits for its other end."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')} and not a file")


def find(pattern: str, base_dir: Path) -> list[str]:
    """The names that a glob leads to, sorted: as `glob.glob` with ``recursive``, which leaves out
    silently what it can't look into. Raises ConfigError, which names that."""
    start = "/" if pattern.startswith("/") else ""
    parts = [part for part in pattern.split("/") if part]
    return sorted(set(_below(base_dir, start, parts, ()))) if parts else []


def _below(base_dir: Path, folder: str, parts: list[str], above: tuple[str, ...]) -> Iterator[str]:
    """``above``: the real paths of the folders that ``**`` has gone through."""
    part, *rest = parts
    if part == "**":
        yield from _below(base_dir, folder, rest or ["*"], ())
        real_path = os.path.realpath(base_dir / folder)
        if real_path in above:
            raise _not_looked_into(base_dir / folder, "it leads back to a folder above it")
        above = (*above, real_path)
        deeper, part = parts, "*"
    else:
        deeper = rest
    for name in _matching(base_dir / folder, part):
        path = os.path.join(folder, name)
        if deeper and _is_folder(base_dir / path):
            yield from _below(base_dir, path, deeper, above)
        elif not deeper:
            yield path


def _matching(folder: Path, part: str) -> list[str]:
    try:
        if not any(char in part for char in "*?["):
            os.lstat(folder / part)
            return [part]
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _not_looked_into(folder, error.strerror or error) from error
    shows_hidden = part.startswith(".")
    return [
        name
        for name in names
        if fnmatchcase(name, part) and (shows_hidden or not name.startswith("."))
    ]


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except NotADirectoryError:
        return False
    except FileNotFoundError as error:
        if not path.is_symlink():
            return False
        raise _not_looked_into(path, "it is a link that leads nowhere") from error
    except OSError as error:
        raise _not_looked_into(path, error.strerror or error) from error


def _not_looked_into(path: Path, why: str | OSError) -> ConfigError:
    return ConfigError(
        f"can't look into {path} ({why}), so nobody knows which policy files are in it; let "
        "retentiond read it, or leave it out of the glob"
    )
