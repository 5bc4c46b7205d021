"""What passed on the wire, decoded by `kio`."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader


class Frame(NamedTuple):
    """A request or an answer as it passed. ``passed``: seconds of a monotonic clock; ``at``: of the
    host's clock, since 1970."""

    connection: int
    broker: int
    is_answer: int
    passed: float
    at: float
    content: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its answer, which is None where there was none, or where `kio` can't read it.

    ``client``: the name that it gave itself. ``asked`` and ``answered``: see `Frame.passed`.
    """

    connection: int
    broker: int
    client: str
    api: str
    asked: float
    asked_at: float
    request: Any
    answered: float | None = None
    answer: Any = None

    def __str__(self) -> str:
        return f"{self.api} to broker {self.broker}"


class Pairs:
    """Pairs requests with their answers as they come."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int], Frame] = {}

    def add(self, frames: Iterable[Frame], since: float = math.inf) -> list[Exchange]:
        """Those that are complete now; and what was asked before ``since``, which nobody will
        answer."""
        found = []
        for frame in frames:
            if frame.is_answer:
                (correlation,) = struct.unpack_from(">i", frame.content)
                if asked := self._asked.pop((frame.connection, correlation), None):
                    found.append(_exchange(asked, frame))
            else:
                _, _, correlation = struct.unpack_from(">hhi", frame.content)
                self._asked[frame.connection, correlation] = frame
        for key, asked in list(self._asked.items()):
            if asked.passed < since:
                found.append(_exchange(self._asked.pop(key), None))
        return found

    @property
    def open_since(self) -> float:
        """When the first was asked that may still be answered."""
        return min((frame.passed for frame in self._asked.values()), default=math.inf)


def _exchange(frame: Frame, answer: Frame | None) -> Exchange:
    key, version = struct.unpack_from(">hh", frame.content)
    (length,) = struct.unpack_from(">h", frame.content, 8)
    client = frame.content[10 : 10 + max(0, length)].decode(errors="replace")
    return Exchange(
        frame.connection,
        frame.broker,
        client,
        api_key_map.get(key, str(key)),
        frame.passed,
        frame.at,
        decoded(frame.content, key, version, is_answer=False),
        answer and answer.passed,
        answer and decoded(answer.content, key, version, is_answer=True),
    )


def decoded(content: bytes, key: int, version: int, *, is_answer: bool) -> Any:
    try:
        read_header, read = _readers(key, version, is_answer)
        _, size = read_header(content, 0)
        return read(content, size)[0]
    except Exception:  # noqa: BLE001 - what can't be read proves nothing
        return None


@cache
def _readers(key: int, version: int, is_answer: bool) -> tuple[Any, Any]:
    schema: Any = (load_response_schema if is_answer else load_request_schema)(key, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)
