"""The errors of retentiond, split by what the caller does about them.

    RetentiondError
    ├── ConfigError        the operator fixes the file: exit 2, nothing was touched
    ├── UsageError         the operator fixes the command: exit 2, nothing was touched
    ├── KafkaUnavailable   the cluster can't be asked now: the cycle failed, try again later
    ├── OtherCluster       two clusters answer: delete nothing until an operator restarts it
    ├── SparkUnavailable   the plan can't be worked out now: rebuild the session, try again later
    ├── StateError         the state directory can't be trusted: stop, delete nothing
    │   ├── StateOfOtherCluster  ... and nothing that it says is about the cluster that answers
    │   └── StateReplaced        ... until an operator restarts it
    └── HistoryUnavailable the history can't be read or written: say so, and go on

A reading that failed for *one* partition, group or topic is no exception but a
value (`retentiond.model.Failure`): it holds what it touches and nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence


class RetentiondError(Exception):
    """Base of all errors that reach the user; ``str()`` is one sentence with what to do.

    ``exit_code``: of the command that it ends. 1: what was to be done failed; 2: it could not be
    begun as it was asked for.
    """

    exit_code = 1


class ConfigError(RetentiondError):
    """``path`` is the path of the key (``topics[2].groups.min``), where there is one. ``owner``:
    whose file it is, where that is known. ``others``: what else is wrong."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        file: str | None = None,
        owner: str = "",
        others: Iterable[ConfigError] = (),
    ) -> None:
        self.message = message
        self.path = path
        self.file = file
        self.owner = owner
        self.others = tuple(others)
        super().__init__(": ".join(part for part in (file, path, message) if part))

    def in_file(self, file: str, owner: str = "") -> ConfigError:
        """It and the others, as those of this file where they name none."""
        return ConfigError(
            self.message,
            path=self.path,
            file=self.file or file,
            owner=self.owner or owner,
            others=(other.in_file(file, owner) for other in self.others),
        )


def together(errors: Sequence[ConfigError]) -> ConfigError:
    """The first one, with all others."""
    first, *rest = (error for outer in errors for error in (outer, *outer.others))
    return ConfigError(
        first.message, path=first.path, file=first.file, owner=first.owner, others=rest
    )


class UsageError(RetentiondError):
    exit_code = 2


class KafkaUnavailable(RetentiondError):
    """``kind`` says in a few words what somebody has to fix (a password, a certificate): the same
    for as long as that is wrong, whatever else the sentence tells. None: it may well pass."""

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        self.kind = kind
        super().__init__(message)


class OtherCluster(RetentiondError):
    """A broker belongs to another cluster than the one that retentiond works on."""


class SparkUnavailable(RetentiondError):
    """The Spark session is gone or can't be made."""


class StateError(RetentiondError):
    exit_code = 2


class StateOfOtherCluster(StateError):
    """It belongs to another cluster than the one that answers."""


class StateReplaced(StateError):
    """Its files were removed or replaced while they were in use. Cycles go on once the same files
    are back; only a restart takes others."""


class HistoryUnavailable(RetentiondError):
    """It is never evidence, so no cycle fails because of it. ``kind``: see `KafkaUnavailable`."""

    def __init__(self, message: str, *, kind: str) -> None:
        self.kind = kind
        super().__init__(message)


def release_frames(error: BaseException) -> None:
    """Lets go of what the calls that failed still hold: connections, clients, rows.

    An error keeps the local variables of each call that it ended, and one of them often keeps the
    error (a future does). Such a cycle lasts until Python looks for garbage, which here is rarely.
    """
    chain: list[BaseException | None] = [error]
    visited: set[int] = set()
    while chain:
        linked = chain.pop()
        if linked is not None and id(linked) not in visited:
            visited.add(id(linked))
            traceback.clear_frames(linked.__traceback__)
            chain += [linked.__cause__, linked.__context__]


OUT_OF_BOUNDS = {
    "greater_than_equal": "expected {ge} or more",
    "less_than_equal": "expected {le} or less",
}
"""What a file's reader says of a number, by pydantic's kind of error."""
