"""A configuration, examined by the doctor in this process or as the command."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from retentiond.clock import now_ms
from retentiond.config import Config
from retentiond.tools.doctor.examine import Examination, examine
from retentiond.tools.doctor.finding import Finding, Level
from tests.support.brokers.command import consumed, settings


def examined(
    bootstrap_servers: str,
    folder: Path,
    topics: Iterable[str],
    section: Mapping[str, str] | None = None,
) -> Examination:
    """With those topics enabled; ``section``: more of ``kafka:``."""
    document: dict[str, Any] = settings(
        bootstrap_servers, folder / "state", topics=[consumed(name) for name in topics]
    )
    document["kafka"] |= section or {}
    config = Config.model_validate(document)
    return examine(config, now_ms)


def bad(found: Examination, subjects: Collection[str] | None = None) -> list[tuple[Level, str]]:
    """What is not ok, or of that what is about those subjects."""
    return [
        (each.level, each.subject)
        for each in found.findings
        if each.level is not Level.OK and (subjects is None or each.subject in subjects)
    ]


def about(found: Examination, subject: str) -> list[Finding]:
    return [each for each in found.findings if each.subject == subject]
