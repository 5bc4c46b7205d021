"""How retentiond writes a configuration: the counterpart of `retentiond.config.document`.

What it writes reads back as the same policy, less what may be a secret.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from retentiond.config.settings import SETTINGS, TopicPolicy


def dumped(value: Any) -> str:
    """The YAML of a plain value, whose texts are taken literally when it is read."""
    return yaml.safe_dump(_literal(value), sort_keys=False, allow_unicode=True, width=100)


def dumped_text(text: str) -> str:
    """The YAML of one text, on one line; what can't be printed is escaped."""
    shows = text.isprintable()
    written = yaml.safe_dump(
        _literal(text),
        default_style="'" if shows else '"',
        allow_unicode=shows,
        width=sys.maxsize,
    )
    return str(written).rstrip("\n")


def entry_document(topic: str, policy: TopicPolicy) -> dict[str, Any]:
    """An entry of ``topics`` with all that a policy says, because the entry of an exact name takes
    nothing from others."""
    document: dict[str, Any] = {"name": topic}
    for setting in SETTINGS:
        section, key = document, setting.key
        if key.startswith("groups."):
            section, key = document.setdefault("groups", {}), key.removeprefix("groups.")
        if (value := setting.written(setting.of(policy))) is not None:
            section[key] = value
    return document


def _literal(value: Any) -> Any:
    """``${`` would be substituted when the file is read."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list | tuple):
        return [_literal(each) for each in value]
    if isinstance(value, dict):
        return {_literal(key): _literal(each) for key, each in value.items()}
    return value
