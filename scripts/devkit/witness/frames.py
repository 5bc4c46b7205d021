"""What passed on the wire, decoded by `kio`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple


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

    number: int
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


def exchanges(frames: Iterable[Frame]) -> Iterator[Exchange]:
    """In the order in which they were asked."""
    frames = list(frames)
    answers = {
        (frame.connection, struct.unpack_from(">i", frame.content)[0]): frame
        for frame in frames
        if frame.is_answer
    }
    for number, frame in enumerate(frames):
        if not frame.is_answer:
            _, _, correlation = struct.unpack_from(">hhi", frame.content)
            yield _exchange(number, frame, answers.get((frame.connection, correlation)))


def _exchange(number: int, frame: Frame, answer: Frame | None) -> Exchange:
    key, version = struct.unpack_from(">hh", frame.content)
    (length,) = struct.unpack_from(">h", frame.content, 8)
    client = frame.content[10 : 10 + max(0, length)].decode(errors="replace")
    from kio.schema.index import api_key_map  # noqa: PLC0415 - the demo may lack it

    api = api_key_map.get(key, str(key))
    return Exchange(
        number,
        frame.connection,
        frame.broker,
        client,
        api,
        frame.passed,
        frame.at,
        _decoded(frame.content, key, version, is_answer=False),
        answer and answer.passed,
        answer and _decoded(answer.content, key, version, is_answer=True),
    )


def _decoded(content: bytes, key: int, version: int, *, is_answer: bool) -> Any:
    try:
        read_header, read = _readers(key, version, is_answer)
        _, size = read_header(content, 0)
        return read(content, size)[0]
    except Exception:  # noqa: BLE001 - what can't be read proves nothing
        return None


@cache
def _readers(key: int, version: int, is_answer: bool) -> tuple[Any, Any]:
    from kio.index import load_request_schema, load_response_schema  # noqa: PLC0415 - see above
    from kio.serial import entity_reader  # noqa: PLC0415 - see above

    schema: Any = (load_response_schema if is_answer else load_request_schema)(key, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)
