"""What goes wrong, and when: a log of calls, and actions around the next one of a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Action = Callable[[], object]


class Call(NamedTuple):
    """One call of the interface; ``args`` as they were given."""

    api: str
    args: tuple[Any, ...]


class Script:
    """Every action runs once, around the next call of its ``api``; several run in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._before: list[tuple[str, Action]] = []
        self._after: list[tuple[str, Action]] = []

    def before(self, api: str, action: Action) -> None:
        self._before.append((api, action))

    def after(self, api: str, action: Action) -> None:
        """The answer is made already: what the action changes comes too late for it."""
        self._after.append((api, action))

    def fail_next(self, api: str, error: Exception) -> None:
        def fail() -> None:
            raise error

        self.before(api, fail)

    @property
    def apis(self) -> list[str]:
        """The names of the calls, in order."""
        return [call.api for call in self.calls]

    @contextmanager
    def around(self, api: str, args: tuple[Any, ...]) -> Iterator[None]:
        self.calls.append(Call(api, args))
        _run(self._before, api)
        yield
        _run(self._after, api)


def _run(actions: list[tuple[str, Action]], api: str) -> None:
    for due in [each for each in actions if each[0] == api]:
        actions.remove(due)
        due[1]()
