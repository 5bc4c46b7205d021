"""``retentiond orphans``: KIP-370 on a broker's host, without a change to the broker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retentiond.cli.options import Debug, Output, OutputFormat, start_logging
from retentiond.errors import ConfigError, UsageError
from retentiond.formatting import parse_duration, printable
from retentiond.kafka.settings.command_config import read_settings
from retentiond.state_places import make_state_dir, user_state_dir
from retentiond.tools.orphans.broker_process import identify

if TYPE_CHECKING:
    from retentiond.config import Http
    from retentiond.tools.orphans.orphan import Orphan
    from retentiond.tools.orphans.scan import Approve, RemovalTerms, Session


def orphans(  # noqa: PLR0917 - typer hands each option over by its name
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", help="The brokers to start from: host:port,…")
    ],
    log_dir: Annotated[
        list[Path],
        typer.Option("--log-dir", metavar="DIR…", help="The broker's log directories (log.dirs)."),
    ],
    further: Annotated[
        list[Path] | None, typer.Argument(help="More directories for --log-dir.", metavar="DIR")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", help="Java properties of an AdminClient."),
    ] = None,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Remove the orphans that meet every condition; else only report."
        ),
    ] = False,
    after: Annotated[
        str,
        typer.Option("--after", help="How long a folder must have been an orphan, as in 2h or 1d."),
    ] = "2h",
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            help="How old all of its records must be; by default the broker's log.retention.*",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputFormat = Output.TABLE,
    listen: Annotated[
        str | None,
        typer.Option(
            "--serve",
            metavar="[HOST:]PORT",
            help="Look again every --interval, and serve metrics there, until SIGTERM.",
        ),
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", help="With --serve: time from one look to the next.")
    ] = "5m",
    http_config: Annotated[
        Path | None,
        typer.Option(
            "--http-config",
            metavar="FILE",
            help="With --serve: a YAML file whose section http holds tls, basic_auth or both, as "
            "in the daemon's configuration.",
            show_default=False,
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            "--state-dir",
            help="Directory that keeps since when each folder is an orphan, and the audit log; by "
            "default $XDG_STATE_HOME/retentiond, else ~/.local/state/retentiond.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Report, and remove, partition folders that the cluster does not assign to this broker.

    Run it on the broker's host, as Kafka's user. Without --remove it changes nothing but
    --state-dir. It removes a folder when the folder has been an orphan for long enough, all of its
    records are older than the retention period, the cluster was read completely, and no process
    has the folder open.

    Example: retentiond orphans --bootstrap-server localhost:9092 --log-dir /var/lib/kafka

    Example: retentiond orphans --bootstrap-server localhost:9092 --log-dir /disk1 /disk2
    --remove --yes --serve 9478
    """

    from retentiond.tell import logs

    terms = removal_terms(after, retention)
    port = metrics_port(listen, interval, http_config)
    if remove and not yes and (port is not None or not sys.stdin.isatty()):
        raise UsageError("--remove needs --yes where it can't ask; without --remove it only looks")
    wanted = OrphansOptions(
        servers=bootstrap_server,
        command_config=command_config,
        log_dirs=(*log_dir, *(further or ())),
        terms=terms,
        approve=approval(yes=yes) if remove else None,
        state_dir=state_dir,
    )
    if port is not None:
        logs.write_aside()
    start_logging(debug)
    if port is not None:
        go_on(wanted, port)
    elif scan_once(wanted, output):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class OrphansOptions:
    """``approve``: None looks only; ``state_dir``: None is the user's own."""

    servers: str
    command_config: Path | None
    log_dirs: tuple[Path, ...]
    terms: RemovalTerms
    approve: Approve | None
    state_dir: Path | None


class MetricsPort(NamedTuple):
    http: Http
    interval_ms: int


def scan_once(wanted: OrphansOptions, output: Output) -> bool:
    """Whether it could not see everything, or a removal failed."""
    from retentiond.cli.output.orphans import show
    from retentiond.tools.orphans.orphan import Fate

    with _session(wanted, threading.Event(), while_down=True) as session:
        look = session.run()
    show(look, output)
    return bool(look.problems) or any(orphan.fate is Fate.FAILED for orphan in look.orphans)


def go_on(wanted: OrphansOptions, port: MetricsPort) -> None:
    """Looks until a signal ends it."""
    from retentiond.tools.orphans.serve import serve

    stop = threading.Event()
    with _session(wanted, stop, while_down=False) as session:
        try:
            serve(session.run, stop, port.http, port.interval_ms)
        except ConfigError as error:  # it speaks of the daemon's file
            raise UsageError(f"--serve: {error.message}") from error


@contextmanager
def _session(
    wanted: OrphansOptions, stop: threading.Event, *, while_down: bool
) -> Iterator[Session]:
    from retentiond.tools.orphans.remove import AuditedRemovals
    from retentiond.tools.orphans.scan import KafkaReplicas, Session

    disks = identify(wanted.log_dirs)
    where = wanted.state_dir or user_state_dir()
    make_state_dir(where)
    settings = read_settings(wanted.servers, wanted.command_config)
    with closing(KafkaReplicas(settings)) as cluster:
        yield Session(
            disks,
            cluster,
            wanted.terms,
            where,
            AuditedRemovals(where),
            approve=wanted.approve,
            stopping=stop.is_set,
            while_down=while_down,
        )


def removal_terms(after: str, retention: str | None) -> RemovalTerms:
    from retentiond.tools.orphans.scan import RemovalTerms

    return RemovalTerms(
        after_ms=_duration("--after", after),
        retention_ms=None if retention is None else _duration("--retention", retention),
    )


def metrics_port(listen: str | None, interval: str, http_config: Path | None) -> MetricsPort | None:
    """None: nothing is served. Raises `UsageError` and `ConfigError`."""
    from retentiond.config import Http, load_http

    interval_ms = _interval_ms(interval)
    if listen is None:
        if http_config is not None:
            raise UsageError("--http-config goes with --serve")
        return None
    host, number = _address(listen)
    secured = Http() if http_config is None else load_http(http_config)
    http = Http(host=host, port=number, tls=secured.tls, basic_auth=secured.basic_auth)
    return MetricsPort(http, interval_ms)


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
