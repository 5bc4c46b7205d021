"""Puts the proxy's addresses into brokers' answers, so that clients stay behind it."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_writer

from devkit.witness.exchanges import decoded

NAME_BROKERS = {1, 3, 10, 60}
"""The keys of Fetch, Metadata, FindCoordinator and DescribeCluster."""

Lead = Callable[[int, str, int], int]


class Addresses:
    """Before a cluster that nobody has laid out for a witness."""

    def __init__(self, lead: Lead) -> None:
        self._lead = lead
        self._ports: dict[tuple[str, int], int] = {}
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}

    def rewrite(self, connection: int, frame: bytes, is_answer: bool) -> bytes:
        if not is_answer:
            key, version, correlation = struct.unpack_from(">hhi", frame)
            if key in NAME_BROKERS:
                self._asked[connection, correlation] = key, version
            return frame
        (correlation,) = struct.unpack_from(">i", frame)
        asked = self._asked.pop((connection, correlation), None)
        answer = decoded(frame, *asked, is_answer=True) if asked else None
        changed = self._led(answer)
        if asked is None or changed == answer:
            return frame
        schema, content = load_response_schema(*asked), io.BytesIO()
        header = schema.__header_schema__
        entity_writer(header)(content, header(correlation_id=correlation))
        entity_writer(schema)(content, changed)
        return content.getvalue()

    def _led(self, said: Any) -> Any:
        """The same, with this host's addresses wherever a broker's are."""
        if isinstance(said, tuple):
            return tuple(map(self._led, said))
        if not is_dataclass(said) or isinstance(said, type):
            return said
        changed = {field.name: self._led(getattr(said, field.name)) for field in fields(said)}
        if changed.get("host") and changed["port"] > 0:  # else there is no coordinator
            broker = changed.get("node_id", changed.get("broker_id", -1))
            changed |= {"host": "127.0.0.1", "port": self._port(broker, **changed)}
        return replace(said, **changed)

    def _port(self, broker: int, host: str, port: int, **_: object) -> Any:
        if (host, port) not in self._ports:
            self._ports[host, port] = self._lead(0, f"{host}:{port}", broker)
        return type(port)(self._ports[host, port])
