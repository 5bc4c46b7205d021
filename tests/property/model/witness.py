"""Stands between retentiond and the cluster: every question is a moment at which things happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Generic, Self, TypeVar

from retentiond.errors import KafkaUnavailable
from tests.property.model.hand import Hand
from tests.property.model.ledger import Ledger, Moment

T = TypeVar("T")


class Killed(BaseException):
    """As SIGKILL: nothing handles it."""


class Moments:
    """Counts the moments of a cycle; at a number of them, something happens."""

    def __init__(self, ledger: Ledger) -> None:
        self.names: list[str] = []
        self._ledger = ledger
        self._due: list[tuple[int | str, Callable[[str], None]]] = []

    def plan(self, due: Sequence[tuple[int | str, Callable[[str], None]]]) -> None:
        self.names.clear()
        self._due = list(due)

    def reach(self, name: str) -> None:
        """``ledger.before`` is how things stood when retentiond could last look at them."""
        self._ledger.before = Moment(self._ledger.paused, self._ledger.hand.host_now_ms)
        number = len(self.names)
        self.names.append(name)
        for due in [each for each in self._due if each[0] in (number, name)]:
            self._due.remove(due)
            due[1](name)
            self._ledger.look()


class Clock:
    """In place of the module `time` where a reading waits: only waits let time go by."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Stop:
    """The signal to end, and waits that take no time."""

    def __init__(self, hand: Hand, moments: Moments) -> None:
        self.is_asked = False
        self.clock = Clock()
        self._hand = hand
        self._moments = moments

    def is_set(self) -> bool:
        return self.is_asked

    def wait(self, timeout: float) -> bool:
        self._moments.reach("wait")
        self.clock.seconds += timeout
        self._hand.wait(timeout)
        return self.is_asked


class Witness:
    """The port of the fake cluster. ``spoil``: what becomes of the next answers, by api."""

    def __init__(self, ledger: Ledger, moments: Moments, judge: Callable[[Any], None]) -> None:
        self._ledger = ledger
        self._moments = moments
        self._judge = judge
        self.cut = False  # the next question finds no broker
        self.leave_out = False  # the next answer lacks an item
        self.objection: Exception | None = None

    def __getattr__(self, api: str) -> Callable[..., Any]:
        method = getattr(self._ledger.hand.cluster, api)

        def asked(*args: Any) -> Any:
            self._moments.reach(api)
            if api == "delete_records":
                self._object(args[0])
            if self.cut:
                self.cut = False
                self._ledger.answered()
                raise KafkaUnavailable("no broker answers")
            answer = method(*args)
            if self.leave_out and isinstance(answer, dict) and answer:
                self.leave_out = False
                answer = dict(list(answer.items())[1:])
            reading = self._ledger.current
            reading.take(self._ledger.hand.cluster, self._ledger.rules, api, args, answer)
            if api == "describe_topics":
                self._ledger.looked_at.update(args[0])
            if api == "delete_records":
                self._ledger.answered()
                self._moments.reach("the answer")
            return answer

        return asked

    def _object(self, cutoffs: Any) -> None:
        """retentiond takes an error here for one of the network, so it is kept for later."""
        try:
            self._judge(cutoffs)
        except Exception as error:  # noqa: BLE001 - a mistake of the ledger's must not hide either
            self.objection = self.objection or error


class Later(Generic[T]):
    """A task that runs when somebody asks for its result, if not before."""

    def __init__(self, task: Callable[[], T]) -> None:
        self._task: Callable[[], T] | None = task
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            try:
                self._result = task()
            except Exception as error:  # noqa: BLE001 - it is the caller's, as with a real one
                self._error = error

    def result(self) -> Any:
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class OneThread:
    """In place of a `ThreadPoolExecutor`: each task runs at once, or as late as can be."""

    def __init__(self, is_late: Sequence[bool], *_: object, **__: object) -> None:
        self._is_late: Iterator[bool] = chain(is_late, repeat(False))
        self._tasks: list[Later[Any]] = []

    def submit(self, function: Callable[..., T], *args: Any) -> Later[T]:
        task = Later(lambda: function(*args))
        if not next(self._is_late):
            task.run()
        self._tasks.append(task)
        return task

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Nothing is left running, unless the process is."""
        if kind is not Killed:
            for task in self._tasks:
                task.run()
