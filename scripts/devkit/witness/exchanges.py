"""What passed on the wire, decoded by `kio`."""

from __future__ import annotations

import math
import struct
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
    is_answer: bool
    passed: float
    at: float
    content: bytes

    @property
    def key(self) -> tuple[int, int]:
        """What a request and its answer have in common: the correlation id of the connection."""
        (correlation,) = struct.unpack_from(">i", self.content, 0 if self.is_answer else 4)
        return self.connection, correlation


class Exchange(NamedTuple):
    """A request, and its answer once that is there. Either is None where `kio` can't read it.

    ``client``: the name that it gave itself. ``asked`` and ``answered``: see `Frame.passed`.
    """

    connection: int
    broker: int
    client: str
    api: str
    version: tuple[int, int]
    asked: float
    asked_at: float
    request: Any
    answered: float = math.inf
    answer: Any = None

    def __str__(self) -> str:
        return f"{self.api} to broker {self.broker}"

    @classmethod
    def of(cls, frame: Frame) -> Exchange:
        key, version, _, length = struct.unpack_from(">hhih", frame.content)
        return cls(
            frame.connection,
            frame.broker,
            frame.content[10 : 10 + max(0, length)].decode(errors="replace"),
            api_key_map.get(key, str(key)),
            (key, version),
            frame.passed,
            frame.at,
            decoded(frame.content, key, version, is_answer=False),
        )

    def answered_by(self, frame: Frame) -> Exchange:
        answer = decoded(frame.content, *self.version, is_answer=True)
        return self._replace(answered=frame.passed, answer=answer)


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
