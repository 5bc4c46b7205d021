"""What ``retentiond orphans`` does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import typer

from retentiond.cli.options import Output
from retentiond.cli.orphans_audit import OrphansAudit
from retentiond.cli.orphans_show import show
from retentiond.cli.state_dir import default_state_dir, make_state_dir
from retentiond.command_config.settings import read_settings
from retentiond.config import Http, load_http
from retentiond.config.duration import parse_duration
from retentiond.errors import ConfigError, UsageError
from retentiond.orphans.cluster import KafkaReplicas
from retentiond.orphans.identity import identify
from retentiond.orphans.look import Terms
from retentiond.orphans.orphan import Fate, Orphan
from retentiond.orphans.serve import serve
from retentiond.orphans.session import Approve, Session
from retentiond.wording.printable import printable


@dataclass(frozen=True, slots=True)
class Wanted:
    """``approve``: None looks only; ``state_dir``: None is the user's own."""

    servers: str
    command_config: Path | None
    log_dirs: tuple[Path, ...]
    terms: Terms
    approve: Approve | None
    state_dir: Path | None


class Port(NamedTuple):
    http: Http
    interval_ms: int


def look_once(wanted: Wanted, output: Output) -> bool:
    """Whether it could not see everything, or a removal failed."""
    with _session(wanted, threading.Event(), while_down=True) as session:
        look = session.run()
    show(look, output, sys.stdout)
    return bool(look.problems) or any(orphan.fate is Fate.FAILED for orphan in look.orphans)


def go_on(wanted: Wanted, port: Port) -> None:
    """Looks until a signal ends it."""
    stop = threading.Event()
    with _session(wanted, stop, while_down=False) as session:
        try:
            serve(session.run, stop, port.http, port.interval_ms)
        except ConfigError as error:  # it speaks of the daemon's file
            raise UsageError(f"--serve: {error.message}") from error


@contextmanager
def _session(wanted: Wanted, stop: threading.Event, *, while_down: bool) -> Iterator[Session]:
    disks = identify(wanted.log_dirs)
    where = wanted.state_dir or default_state_dir()
    make_state_dir(where)
    settings = read_settings(wanted.servers, wanted.command_config)
    with closing(KafkaReplicas(settings)) as cluster:
        yield Session(
            disks,
            cluster,
            wanted.terms,
            where,
            OrphansAudit(where),
            approve=wanted.approve,
            stopping=stop.is_set,
            while_down=while_down,
        )


def terms(after: str, retention: str | None) -> Terms:
    return Terms(
        after_ms=_duration("--after", after),
        retention_ms=None if retention is None else _duration("--retention", retention),
    )


def port(listen: str | None, interval: str, http_config: Path | None) -> Port | None:
    """None: nothing is served. Raises `UsageError` and `ConfigError`."""
    interval_ms = _interval_ms(interval)
    if listen is None:
        if http_config is not None:
            raise UsageError("--http-config goes with --serve")
        return None
    host, number = _address(listen)
    secured = Http() if http_config is None else load_http(http_config)
    http = Http(host=host, port=number, tls=secured.tls, basic_auth=secured.basic_auth)
    return Port(http, interval_ms)


def approval(*, yes: bool) -> Approve:
    """Asks once for all; with ``yes`` not at all."""

    def ask(due: Sequence[Orphan]) -> bool:
        if yes:
            return True
        for orphan in due:
            size_bytes = orphan.contents.segment_bytes
            path = printable(str(orphan.folder.path))
            print(f"{path}: {size_bytes:,} bytes; {orphan.why}", file=sys.stderr)
        what = "this folder" if len(due) == 1 else f"these {len(due)} folders"
        return typer.confirm(f"Remove {what} for good?", err=True)

    return ask


def _duration(option: str, text: str) -> int:
    duration_ms = parse_duration(text)
    if duration_ms is None:
        raise UsageError(f"{option} {text!a}: expected a number and a unit, as in 2h, 7d or 90m")
    return duration_ms


def _interval_ms(text: str) -> int:
    interval_ms = _duration("--interval", text)
    if interval_ms < 1000:
        raise UsageError("--interval: expected 1s or more")
    return interval_ms


def _address(text: str) -> tuple[str, int]:
    """All addresses of the host where none is named."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--serve {text!a}: expected [HOST:]PORT, as in 9478 or 127.0.0.1:9478")
    return host.strip("[]") or "0.0.0.0", int(port)
