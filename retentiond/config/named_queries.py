"""The Spark queries that a policy file names, read from its text although the file is bad.

They read topics of other teams, too, so a mistake in the file must not make them vanish. Whatever
else is wrong with a query's entry or with the file, its name and its checkpoint are enough. YAML
that a policy file may not hold (a key twice, anchors, tags) is read as well, and of text that
breaks off what stands before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

import yaml
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from retentiond.config.external_reader import ExternalReader

_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

NEVER_TOO_OLD_MS = 1 << 62
"""In place of ``max_age``, which may be what is wrong: an old position only bounds more."""


class _Section:
    """A mapping or a list while its events pass. ``texts``: of a mapping, its scalars by key."""

    def __init__(self, *, is_mapping: bool) -> None:
        self.texts: defaultdict[str, list[str]] = defaultdict(list)
        self._is_mapping = is_mapping
        self._key: str | None = None

    def takes(self, value: str | None) -> None:
        """A scalar, or None for a section."""
        if self._is_mapping and self._key is None:
            self._key = value or ""
        else:
            if self._key is not None and value is not None:
                self.texts[self._key].append(value)
            self._key = None


def named_queries(text: str) -> Iterator[ExternalReader]:
    for texts in _sections(text):
        for checkpoint in texts.get("spark_checkpoint", ()):
            for name in (*texts.get("name", ()), checkpoint):
                query = _query(name, checkpoint)
                if query is not None:
                    yield query
                    break


def _query(name: str, checkpoint: str) -> ExternalReader | None:
    with suppress(ValidationError, PydanticCustomError):
        query = ExternalReader.model_validate({"name": name, "spark_checkpoint": checkpoint})
        return query.model_copy(update={"max_age_ms": NEVER_TOO_OLD_MS})
    return None


def _sections(text: str) -> Iterator[dict[str, list[str]]]:
    """The scalars of each mapping. It builds nothing, so no text is too deep for it."""
    open_ones: list[_Section] = []
    anchored: dict[str, str] = {}
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionEndEvent):
                yield open_ones.pop().texts
                continue
            value: str | None = None
            if isinstance(event, yaml.ScalarEvent):
                value = event.value
                if event.anchor is not None:
                    anchored[event.anchor] = value
            elif isinstance(event, yaml.AliasEvent):
                value = anchored.get(event.anchor or "")
            elif not isinstance(event, yaml.CollectionStartEvent):
                continue
            if open_ones:
                open_ones[-1].takes(value)
            if isinstance(event, yaml.CollectionStartEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                open_ones.append(_Section(is_mapping=is_mapping))
    for section in open_ones:
        yield section.texts
