"""``retentiond orphans``: KIP-370 on a broker's host, without a change to the broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    WITH_SERVER,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    Confirmed,
    Debug,
    Output,
    OutputFormat,
    duration_ms,
    load,
    refuse_without,
    set_up,
    start_without_configuration,
)
from retentiond.errors import UsageError
from retentiond.formatting import printable
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.state_places import make_state_dir, user_state_dir
from retentiond.tools.orphans.broker_process import identify

if TYPE_CHECKING:
    from retentiond.tools.orphans.orphan import Orphan
    from retentiond.tools.orphans.scan import Approve, RemovalTerms, Session


def orphans(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    log_dir: Annotated[
        list[Path],
        typer.Option("--log-dir", metavar="DIR…", help="The broker's log directories (log.dirs)."),
    ],
    further: Annotated[
        list[Path] | None, typer.Argument(help="More directories for --log-dir.", metavar="DIR")
    ] = None,
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
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
    yes: Confirmed = False,
    output: OutputFormat = Output.TABLE,
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

    Run it on the broker's host, as Kafka's user. It asks the cluster of --bootstrap-server, or
    else of the configuration's kafka section, the only part of the configuration that it uses.
    Without --remove it changes nothing but --state-dir. It removes a folder when the folder has
    been an orphan for long enough, all of its records are older than the retention period, the
    cluster was read completely, and no process has the folder open.

    Example: retentiond orphans --log-dir /var/lib/kafka

    Example: retentiond orphans --bootstrap-server localhost:9092 --log-dir /disk1 /disk2
    """
    terms = removal_terms(after, retention)
    if remove and not yes and not sys.stdin.isatty():
        raise UsageError("--remove needs --yes where it can't ask; without --remove it only looks")
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        settings = read_settings(bootstrap_server, command_config)
    else:
        refuse_without(WITH_SERVER, {"--command-config": command_config})
        path = set_up(context, config, debug)
        settings = translate(load(path, "--config, or the cluster with --bootstrap-server").kafka)
    wanted = OrphansOptions(
        settings=settings,
        log_dirs=(*log_dir, *(further or ())),
        terms=terms,
        approve=approval(yes=yes) if remove else None,
        state_dir=state_dir,
    )
    if scan_once(wanted, output):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class OrphansOptions:
    """``approve``: None looks only; ``state_dir``: None is the user's own."""

    settings: ClientSettings
    log_dirs: tuple[Path, ...]
    terms: RemovalTerms
    approve: Approve | None
    state_dir: Path | None


def scan_once(wanted: OrphansOptions, output: Output) -> bool:
    """Whether it could not see everything, or a removal failed."""
    from retentiond.cli.output.orphans import show
    from retentiond.tools.orphans.orphan import Fate

    with _session(wanted) as session:
        look = session.run()
    show(look, output)
    return bool(look.problems) or any(orphan.fate is Fate.FAILED for orphan in look.orphans)


@contextmanager
def _session(wanted: OrphansOptions) -> Iterator[Session]:
    from retentiond.tools.orphans.remove import AuditedRemovals
    from retentiond.tools.orphans.scan import KafkaReplicas, Session

    disks = identify(wanted.log_dirs)
    where = wanted.state_dir or user_state_dir()
    make_state_dir(where)
    with closing(KafkaReplicas(wanted.settings)) as cluster:
        yield Session(
            disks,
            cluster,
            wanted.terms,
            where,
            AuditedRemovals(where),
            approve=wanted.approve,
        )


def removal_terms(after: str, retention: str | None) -> RemovalTerms:
    from retentiond.tools.orphans.scan import RemovalTerms

    return RemovalTerms(
        after_ms=duration_ms(after, "--after", "2h"),
        retention_ms=None if retention is None else duration_ms(retention, "--retention", "7d"),
    )


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
