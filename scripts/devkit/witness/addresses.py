"""Puts addresses of its own into brokers' answers, so that clients stay behind the proxy."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
from dataclasses import replace
from functools import cache
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_writer

from devkit.witness.frames import decoded
from devkit.witness.proxy import LOOPBACK, Proxy, Target

NAME_BROKERS = {1, 3, 10, 60}
"""The keys of Fetch, Metadata, FindCoordinator and DescribeCluster."""


class Addresses:
    """Before a cluster that nobody has laid out for a witness."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._ports: dict[Target, int] = {}
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        self._leading: set[asyncio.Task[None]] = set()
        proxy.rewrite = self.rewrite

    def port(self, target: Target) -> int:
        """That of loopback that leads there. It accepts connections at once."""
        if target not in self._ports:
            listening = socket.create_server((LOOPBACK, 0))
            self._ports[target] = listening.getsockname()[1]
            self._leading.add(asyncio.ensure_future(self._proxy.lead(listening, target)))
        return self._ports[target]

    def rewrite(self, connection: int, frame: bytes, is_answer: bool) -> bytes:
        """With the length before it."""
        if not is_answer:
            key, version, correlation = struct.unpack_from(">hhi", frame, 4)
            if key in NAME_BROKERS:
                self._asked[connection, correlation] = key, version
            return frame
        (correlation,) = struct.unpack_from(">i", frame, 4)
        asked = self._asked.pop((connection, correlation), None)
        answer = decoded(frame[4:], *asked, is_answer=True) if asked else None
        if asked is None or answer is None:
            return frame
        changed = self._changed(answer)
        if changed == answer:
            return frame
        content = io.BytesIO()
        write_header, write = _writers(*asked)
        write_header(content, answer.__header_schema__(correlation_id=correlation))
        write(content, changed)
        return struct.pack(">i", len(content.getvalue())) + content.getvalue()

    def _changed(self, answer: Any) -> Any:
        if hasattr(answer, "host"):
            return self._led(answer)
        names = ("brokers", "coordinators", "node_endpoints")
        lists = {name: getattr(answer, name) for name in names if hasattr(answer, name)}
        changed = {name: tuple(map(self._led, brokers)) for name, brokers in lists.items()}
        return replace(answer, **changed)

    def _led(self, told: Any) -> Any:
        if not told.host or told.port <= 0:  # no coordinator
            return told
        target = told.host, told.port
        self._proxy.brokers[target] = getattr(told, "node_id", getattr(told, "broker_id", -1))
        return replace(told, host=LOOPBACK, port=type(told.port)(self.port(target)))


@cache
def _writers(key: int, version: int) -> tuple[Any, Any]:
    schema = load_response_schema(key, version)
    return entity_writer(schema.__header_schema__), entity_writer(schema)
