"""The addresses that the configuration starts from: each is tried, before a client is made.

A client is content with the first that answers, and can be held up by one that is frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from retentiond.doctor.finding import Finding, Level
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.reach import address_of, trouble_with
from retentiond.kafka.trouble import Kind, Trouble, unavailable

SILENT = (Kind.NO_ADDRESS, Kind.NOBODY_LISTENS, Kind.NO_ANSWER)
"""Nothing can be asked there. About TLS the clients have the last word: they end soon, too."""

Reached = Mapping[str, Trouble | None]
"""By server, HOST:PORT: what is wrong with it; None where nothing can be seen from here."""


def try_servers(settings: ClientSettings) -> Reached:
    """All at once; each takes some seconds at most."""
    servers = [*dict.fromkeys(map(_server, settings.bootstrap_servers.split(",")))]
    with ThreadPoolExecutor(len(servers), thread_name_prefix="reach") as executor:
        found = executor.map(lambda server: trouble_with(server, settings), servers)
        return dict(zip(servers, found, strict=True))


def _server(entry: str) -> str:
    """HOST:PORT of an entry of ``bootstrap.servers``."""
    host, port = address_of(entry)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(settings: ClientSettings, reached: Reached) -> ClientSettings:
    """The same settings, starting from what answers. Raises `KafkaUnavailable` if nothing does."""
    sound = [server for server, trouble in reached.items() if trouble is None]
    sound = sound or [
        server for server, trouble in reached.items() if trouble and trouble.kind not in SILENT
    ]
    if not sound:
        raise KafkaUnavailable("; ".join(map(str, _errors(reached, settings))))
    servers = ",".join(sound)
    return replace(
        settings,
        confluent={**settings.confluent, "bootstrap.servers": servers},
        kafka_python={**settings.kafka_python, "bootstrap_servers": servers},
        bootstrap_servers=servers,
    )


def check_servers(reached: Reached, settings: ClientSettings) -> Iterator[Finding]:
    """Those that don't answer, where others do."""
    for error in _errors(reached, settings):
        yield Finding(
            Level.WARNING,
            "bootstrap.servers",
            str(error),
            "a client may start from any of them: mend it, or take it off the list",
        )


def _errors(reached: Reached, settings: ClientSettings) -> Iterator[KafkaUnavailable]:
    for server, trouble in reached.items():
        if trouble is not None:
            yield unavailable(server, trouble, settings.words)
