"""Whose directories these are: the broker and the cluster of ``meta.properties``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retentiond.command_config import java_properties
from retentiond.errors import UsageError

META = "meta.properties"

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]+")

BROKER_KEYS = ("node.id", "broker.id")
"""KRaft's name, and that of the time before."""


@dataclass(frozen=True, slots=True)
class Disks:
    """Log directories of one broker: ``log_dirs`` are real paths, not all of them perhaps."""

    broker: int
    cluster_id: str
    log_dirs: tuple[Path, ...]


def identify(named: Sequence[Path]) -> Disks:
    """Raises `UsageError` unless all of them are there and belong to one broker."""
    log_dirs = _resolve(named)
    owners = {log_dir: _owner(log_dir) for log_dir in log_dirs}
    (broker, cluster_id) = owners[log_dirs[0]]
    for log_dir, owner in owners.items():
        if owner != (broker, cluster_id):
            raise UsageError(
                f"{log_dirs[0]} is broker {broker}'s of cluster {cluster_id}, and {log_dir} "
                f"broker {owner[0]}'s of {owner[1]}; run the command once for each broker"
            )
    return Disks(broker, cluster_id, log_dirs)


def _resolve(log_dirs: Iterable[Path]) -> tuple[Path, ...]:
    """Where the directories really are, each once; a log directory may be a symbolic link.

    Raises `UsageError` for one that is none.
    """
    resolved: dict[Path, None] = {}
    for log_dir in log_dirs:
        try:
            real = log_dir.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise UsageError(f"--log-dir {log_dir} is not there; name one of log.dirs") from error
        if not real.is_dir():
            raise UsageError(f"--log-dir {log_dir} is no directory; name one of log.dirs")
        resolved[real] = None
    return tuple(resolved)


def _owner(log_dir: Path) -> tuple[int, str]:
    """The broker's id and the cluster's."""
    path = log_dir / META
    try:
        properties = java_properties.parse(path.read_text(encoding=java_properties.ENCODING))
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} is not there, so {log_dir} is no log directory of a broker; "
            "name one of log.dirs"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} can't be read ({error.strerror}); run as Kafka's user") from error
    except ValueError as error:
        raise UsageError(f"{path} can't be read ({error}); is it a broker's?") from error
    broker = next((properties[key] for key in BROKER_KEYS if key in properties), "")
    cluster_id = properties.get("cluster.id", "")
    if not (broker.isascii() and broker.isdecimal() and _CLUSTER_ID.fullmatch(cluster_id)):
        raise UsageError(f"{path} lacks the broker's id or the cluster's; is it a broker's?")
    return int(broker), cluster_id
