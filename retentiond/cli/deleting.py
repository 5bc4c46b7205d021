"""What ``retentiond delete-records`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from retentiond.cli.deletion_audit import AuditLog
from retentiond.cli.deletions import lines, show, spanned
from retentiond.cli.options import Output
from retentiond.cli.state_dir import default_state_dir
from retentiond.cli.wanted import Wanted
from retentiond.command_config.settings import read_settings
from retentiond.delete_records.delete import delete
from retentiond.delete_records.item import Item
from retentiond.delete_records.preview import preview, refuse_hopeless
from retentiond.errors import ConfigError, RetentiondError
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.records import METADATA_TIMEOUT_S, RecordsClient


def delete_wanted(
    wanted: Wanted,
    bootstrap_server: str,
    command_config: Path | None,
    state_dir: Path | None,
    output: Output,
    *,
    dry_run: bool,
    may_ask: bool,
) -> bool:
    """Deletes, or with ``dry_run`` only shows; whether any partition failed."""
    audit = None if dry_run else AuditLog(state_dir or default_state_dir())
    settings = read_settings(bootstrap_server, command_config)
    client = _client(_hasty(settings), command_config)
    with client.explaining():
        items = wanted.items(client, settings)
    if audit is None:
        items = _with_bytes(settings, refuse_hopeless(preview(client, items)))
    elif any(item.is_pending for item in items):
        if may_ask:
            items = preview(client, items)
            _confirm(items)
        audit.requested(bootstrap_server, items)
        items = delete(client, items, settings.request_timeout_s)
        audit.settled(items)
    show(items, output, sys.stdout, dry_run=dry_run)
    if audit is not None and audit.unrecorded is not None:
        raise RetentiondError(f"the outcome above is not in the audit log: {audit.unrecorded}")
    return any(item.has_failed for item in items)


def _client(settings: ClientSettings, command_config: Path | None) -> RecordsClient:
    try:
        return RecordsClient(settings)
    except ConfigError as error:  # it speaks of the daemon's file
        raise ConfigError(error.message, file=str(command_config or "")) from error


def _with_bytes(settings: ClientSettings, items: Sequence[Item]) -> list[Item]:
    from retentiond.delete_records.freeing import with_bytes  # noqa: PLC0415 - brings kafka-python

    return with_bytes(_hasty(settings), items)


def _hasty(settings: ClientSettings) -> ClientSettings:
    """For look-ups: a cluster that doesn't answer is noticed soon, however long deletions take."""
    at_most = min(settings.request_timeout_s, METADATA_TIMEOUT_S)
    return replace(settings, request_timeout_s=at_most)


def _confirm(items: Sequence[Item]) -> None:
    for line in lines(items):
        print(line, file=sys.stderr)
    pending = [item for item in items if item.is_pending]
    typer.confirm(f"Delete {spanned(pending)}?", abort=True, err=True)
