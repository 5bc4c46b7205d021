"""``retentiond orphans``: KIP-370 on a broker's host, without a change to the broker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
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
    refuse,
    set_up,
)
from retentiond.cli.output.printing import Printer, columns_of, print_json
from retentiond.errors import UsageError
from retentiond.fields import document_of
from retentiond.formatting import printable, say_many
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import translate
from retentiond.state_places import make_state_dir, user_state_dir
from retentiond.tools.orphans.broker_process import identify

if TYPE_CHECKING:
    from retentiond.tools.orphans.orphan import Orphan, Scan
    from retentiond.tools.orphans.scan import Approve


def orphans(  # noqa: PLR0917 - typer hands each option over by its name
    log_dir: Annotated[
        list[Path], typer.Option(metavar="DIR…", help="The broker's log directories (log.dirs).")
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
        str, typer.Option(help="How long a folder must have been an orphan, as in 2h or 1d.")
    ] = "2h",
    retention: Annotated[
        str | None,
        typer.Option(
            help="How old all of its records must be; by default the broker's log.retention.*"
        ),
    ] = None,
    yes: Confirmed = False,
    output: OutputFormat = Output.TABLE,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory that keeps since when each folder is an orphan, and the audit log; by "
            "default $XDG_STATE_HOME/retentiond, else ~/.local/state/retentiond."
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
    from retentiond.kafka.cluster import KafkaCluster
    from retentiond.tools.orphans import scan
    from retentiond.tools.orphans.orphan import Fate
    from retentiond.tools.orphans.remove import AuditedRemovals

    terms = scan.RemovalTerms(
        after_ms=duration_ms(after, "--after", "2h"),
        retention_ms=None if retention is None else duration_ms(retention, "--retention", "7d"),
    )
    if remove and not yes and not sys.stdin.isatty():
        raise UsageError("--remove needs --yes where it can't ask; without --remove it only looks")
    path = set_up(config, debug, bootstrap_server)
    if bootstrap_server is not None:
        settings = read_settings(bootstrap_server, command_config)
    else:
        refuse({"--command-config": command_config}, WITH_SERVER)
        settings = translate(load(path, "--config, or the cluster with --bootstrap-server").kafka)
    disks = identify((*log_dir, *(further or ())))
    where = state_dir or user_state_dir()
    make_state_dir(where)
    approve = approval(yes=yes) if remove else None
    with closing(KafkaCluster(settings, lambda *_: None)) as cluster:
        removals = AuditedRemovals(where)
        look = scan.take_look(disks, cluster, terms, where, removals, approve=approve)
    show(look, output)
    if look.problems or any(orphan.fate is Fate.FAILED for orphan in look.orphans):
        raise typer.Exit(1)


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


STYLES = {"removed": "green", "failed": "red", "removable": "yellow", "kept": ""}


def show(look: Scan, output: Output) -> None:
    if output is Output.JSON:
        print_json(document_of(look))
        return
    from retentiond.tools.orphans.orphan import Orphan, OrphansInLogDir

    printer = Printer()
    printer.table(columns_of(OrphansInLogDir), look.log_dirs)
    if look.orphans:
        printer.say("")
        printer.table(columns_of(Orphan), look.orphans, lambda orphan: STYLES[orphan.fate.value])
    for stranger in look.unclear:
        printer.say(f"left alone: {stranger.log_dir / stranger.name!s}: {stranger.why}")
    for problem in look.problems:
        printer.say(f"incomplete: {problem}")
    printer.say(summary(look))


def summary(look: Scan) -> str:
    from retentiond.tools.orphans.orphan import Fate

    fates = [orphan.fate for orphan in look.orphans]
    return (
        f"broker {look.disks.broker}: {say_many(len(fates), 'orphan')}, of which "
        + ", ".join(f"{fates.count(fate)} {fate}" for fate in Fate)
        + "."
    )
