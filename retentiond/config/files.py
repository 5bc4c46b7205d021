"""The files of a configuration, read so that they belong together.

They are opened one after another, and somebody may change them meanwhile: Kubernetes replaces all
files of a ConfigMap at once, by the link ``..data``, and a mixture of two versions may delete what
both of them keep. So each path is resolved before a file is opened, and what was found and read
counts only if a second look finds the same.

A file system may hang, and no thread that waits for it can be woken. So each path has a thread of
its own, which is waited for only so long, and no second one while it hangs.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from retentiond.background import in_background
from retentiond.errors import ConfigError

Found = TypeVar("Found")

ANSWER_S = 5.0
"""How long a reading waits for the first path that does not answer."""

NEXT_ANSWER_S = 0.1
"""And for each further one: they are likely to be on the same mount."""

MOST_LINKS = 40
"""As Linux follows."""


class Place(NamedTuple):
    """Where a path leads: the file's own path, and each path on the way there, its own first."""

    real_path: str
    way: tuple[str, ...]


class Content(NamedTuple):
    """What a file held, or why it could not be read (a text). ``stamp``: which file it was and when
    it was last written; None if it was written while it was read."""

    held: bytes | str
    stamp: tuple[int, ...] | None = ()


class ConfigFiles:
    """What one reading has found and read: names by glob, places and contents by path.

    ``unsettled``: paths that count as they were in an ``earlier`` reading, because they don't stand
    still. Without one they can't be read."""

    def __init__(
        self, unsettled: frozenset[str] = frozenset(), earlier: ConfigFiles | None = None
    ) -> None:
        self._names: dict[tuple[str, Path], list[str] | str] = {}
        self._places: dict[Path, Place] = {}
        self._contents: dict[tuple[Path, int], Content] = {}
        self._unsettled = unsettled
        self._earlier = earlier
        self._patience_s = ANSWER_S

    def find(self, pattern: str, base_dir: Path) -> list[str]:
        names: list[str] | ConfigError
        if self._unsettled and isinstance(first := self._names.get((pattern, base_dir)), list):
            return first
        try:
            names = self._answer(f"{base_dir}: {pattern}", lambda: find(pattern, base_dir))
        except OSError as error:
            names = _not_looked_into(base_dir / pattern, error.strerror or error)
        except ConfigError as error:
            names = error
        if isinstance(names, list) and self._earlier is not None:
            before = self._earlier._names.get((pattern, base_dir), [])
            names = [name for name in names if not self._is_unsettled(base_dir / name)]
            if isinstance(before, list):
                names += (name for name in before if self._is_unsettled(base_dir / name))
            names.sort()
        self._names[pattern, base_dir] = names if isinstance(names, list) else str(names)
        if isinstance(names, ConfigError):
            raise names
        return names

    def resolve(self, path: Path) -> Place:
        """The same for the whole reading. What can't be followed leads no further."""
        if path in self._places:
            return self._places[path]
        place = None
        if self._earlier is not None and self._is_unsettled(path):
            place = self._earlier._places.get(path)
        if place is None:
            try:
                place = self._answer(str(path), lambda: _resolved(path))
            except (OSError, ValueError):
                place = Place(os.path.abspath(path), ())
        self._places[path] = place
        return place

    def read(self, path: Path, most_bytes: int) -> bytes:
        """Its first bytes. Raises OSError for whatever is no file, and ValueError for what is no
        path."""
        real_path = self.resolve(path).real_path
        try:
            if self._is_unsettled(path):
                content = self._as_it_was(path, most_bytes)
            else:
                content = self._answer(str(path), lambda: _read(real_path, most_bytes))
        except OSError as error:
            self._contents[path, most_bytes] = Content(str(error))
            raise
        self._contents[path, most_bytes] = content
        return cast(bytes, content.held)

    def let_go(self) -> None:
        """Of the earlier reading, once all is read."""
        self._earlier = None

    def _is_unsettled(self, path: Path) -> bool:
        return str(path) in self._unsettled

    def _as_it_was(self, path: Path, most_bytes: int) -> Content:
        earlier = self._contents.get((path, most_bytes))
        if earlier is None and self._earlier is not None:
            earlier = self._earlier._contents.get((path, most_bytes))
        if earlier is None or not isinstance(earlier.held, bytes):
            raise OSError(errno.EBUSY, "it keeps changing while it is read")
        return earlier

    def is_missing(self, path: Path) -> bool:
        """Whether there is no such file, though there is its folder."""
        with suppress(OSError, ValueError):
            return self._answer(
                str(path), lambda: os.path.isdir(path.parent) and not os.path.exists(path)
            )
        return False

    def look_again(self) -> ConfigFiles:
        """At the same. It opens no file before all are resolved."""
        again = ConfigFiles()
        for pattern, base_dir in self._names:
            with suppress(ConfigError):
                again.find(pattern, base_dir)
        for path in self._places:
            again.resolve(path)
        for path, most_bytes in self._contents:
            with suppress(OSError):
                again.read(path, most_bytes)
        return again

    def changed_in(self, later: ConfigFiles) -> frozenset[str]:
        """The paths whose content, or the name that they lead to, differs in the later look."""
        return self._differing(
            later,
            lambda place: os.path.basename(place.real_path),
            lambda content: content.held,
        )

    def written_until(self, later: ConfigFiles) -> frozenset[str]:
        """The paths that were written, came, went or led elsewhere until the later look, though
        they may hold the same again. Those that don't count are left out."""
        unfinished = {str(path) for (path, _), read in self._contents.items() if read.stamp is None}
        differing = self._differing(later, lambda place: place, lambda content: content)
        return (differing | unfinished) - self._unsettled

    def _differing(
        self,
        later: ConfigFiles,
        of_place: Callable[[Place], object],
        of_content: Callable[[Content], object],
    ) -> frozenset[str]:
        """``of_place`` and ``of_content`` tell what of them counts."""
        paths = [
            path
            for path, place in self._places.items()
            if of_place(later._places[path]) != of_place(place)
        ]
        paths += [
            path
            for (path, most_bytes), content in self._contents.items()
            if of_content(later._contents[path, most_bytes]) != of_content(content)
        ]
        return frozenset((*self._other_names(later), *map(str, paths)))

    def _other_names(self, later: ConfigFiles) -> Iterator[str]:
        for (pattern, base_dir), names in self._names.items():
            later_names = later._names[pattern, base_dir]
            if isinstance(names, list) and isinstance(later_names, list):
                yield from (str(base_dir / name) for name in {*names} ^ {*later_names})
            elif names != later_names:
                yield str(base_dir / pattern)

    def _answer(self, path: str, work: Callable[[], Found]) -> Found:
        """Raises OSError, too, if nothing comes in time."""
        with _HANGING_LOCK:
            hanging = _HANGING.get(path)
            if hanging is None or hanging.done():
                _HANGING.pop(path, None)
                hanging = None
        if hanging is None:
            future = in_background(work, "configuration-file")
            if wait_for([future], self._patience_s).done:
                return future.result()
            self._patience_s = NEXT_ANSWER_S
            with _HANGING_LOCK:
                _HANGING[path] = future
        raise OSError(errno.ETIMEDOUT, NO_ANSWER)


NO_ANSWER = "its file system does not answer"

_HANGING: dict[str, Future[Any]] = {}
"""What was given up, by path."""

_HANGING_LOCK = threading.Lock()


def _resolved(path: Path) -> Place:
    """As `os.path.realpath`, with all that lies on the way."""
    start = os.path.abspath(path)
    at, rest, way = "/", [*reversed(start.split("/"))], [start]
    while rest:
        part = rest.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        step = os.path.join(at, part)
        try:
            target = os.readlink(step)
        except OSError:  # no link, or nothing that can be followed
            at = step
            continue
        if len(way) > MOST_LINKS:
            return Place(start, tuple(way))
        at = "/" if target.startswith("/") else at
        rest += reversed(target.split("/"))
        way.append(os.path.normpath(os.path.join(at, *reversed(rest))))
    return Place(at, tuple(way))


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _read(path: str, most_bytes: int) -> Content:
    _refuse_all_but_files(os.stat(path))
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        before = os.fstat(file.fileno())
        _refuse_all_but_files(before)  # somebody may have replaced it
        content, after = file.read(most_bytes), os.fstat(file.fileno())
    return Content(content, _stamp(after) if _stamp(after) == _stamp(before) else None)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


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
