"""What a shell completes by Tab: topics and groups, asked of the cluster that the line names.

Whoever presses Tab waits: the cluster has two seconds. And nothing that goes wrong is shown, since
it would stand in the middle of the line that is being typed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from retentiond.cli.options import configuration_path, load

if TYPE_CHECKING:
    from retentiond.kafka.settings.properties import ClientSettings

MOST_SECONDS = 2.0


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Internal ones once an underscore is typed."""
    return [
        name
        for name in _in_time(lambda: _topics_of(_settings(ctx)), incomplete)
        if not name.startswith("__") or incomplete.startswith("_")
    ]


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _in_time(lambda: _groups_of(_settings(ctx)), incomplete)


def remembered_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Without asking anybody."""
    return _in_time(lambda: _remembered(ctx), incomplete)


def _in_time(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    logging.disable()
    found: Future[Iterable[str]] = Future()

    def ask() -> None:
        try:
            found.set_result(names())
        except BaseException as error:  # noqa: BLE001 - what is not known is not completed
            found.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        known = found.result(MOST_SECONDS)
    except BaseException:  # noqa: BLE001 - as above
        return []
    return sorted({name for name in known if name.startswith(incomplete)})


def _settings(ctx: typer.Context) -> ClientSettings:
    from retentiond.kafka.settings.command_config import read_settings
    from retentiond.kafka.settings.properties import translate

    given = _given(ctx)
    if servers := given.get("bootstrap_server"):
        settings = read_settings(servers, given.get("command_config"))
    else:
        settings = translate(load(configuration_path(given.get("config"))).kafka)
    return replace(settings, request_timeout_s=MOST_SECONDS)


def _given(ctx: Any) -> dict[str, Any]:
    """The options so far, by their parameters' names; those after the command's name count more."""
    before = {} if ctx.parent is None else _given(ctx.parent)
    return before | {name: value for name, value in ctx.params.items() if value is not None}


def _topics_of(settings: ClientSettings) -> Iterable[str]:
    from retentiond.kafka.confluent.client import RecordsClient

    return RecordsClient(settings).topic_names()


def _groups_of(settings: ClientSettings) -> Iterable[str]:
    from retentiond.kafka.cluster import KafkaCluster

    with closing(KafkaCluster(settings, lambda *_: None)) as kafka:
        return [group.group_id for group in kafka.list_groups()]


def _remembered(ctx: typer.Context) -> Iterable[str]:
    from retentiond.state.groups import recall

    state_dir = load(configuration_path(_given(ctx).get("config"))).state_dir
    return [at.group_id for at in recall(state_dir).commits]
