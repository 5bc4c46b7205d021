"""Fences: which topics a policy file is about, and what it may say of them.

A fence is exclusive, and keeps a mistake inside: no other file says anything about its topics, but
that the main file may switch them off, and while its file can't be used its topics are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from retentiond.config.document import shown
from retentiond.config.no_policy import refusal
from retentiond.config.rules import PRESSURE, GroupRules, TopicRules
from retentiond.config.settings import TopicPolicy
from retentiond.config.values import (
    Duration,
    Section,
    Text,
    TopicRegex,
    filled,
    reads_text,
    refused,
)
from retentiond.formatting import listed, say_duration


def _keys(rules: type[Section], before: str = "") -> dict[str, str]:
    return {name: f"{before}{about.alias or name}" for name, about in rules.model_fields.items()}


_KEYS, _KEYS_OF_GROUPS = _keys(TopicRules), _keys(GroupRules, "groups.")
SETTINGS_OF_TOPICS = (*_KEYS.values(), *_KEYS_OF_GROUPS.values())
"""All that a policy file can say of topics, by its key; ``groups`` stands for all of those."""


def _setting(value: object) -> str:
    if (key := filled(value)) not in SETTINGS_OF_TOPICS:
        raise refused(
            "expected a setting of topics, as in groups.only or allow_compacted, not "
            f"{shown(value)}"
        )
    return key


Setting = Annotated[str, reads_text(_setting), WithJsonSchema({"enum": list(SETTINGS_OF_TOPICS)})]


class Fence(Section):
    """A policy file with its fence: no other file can say anything about the topics of the fence,
    and this file nothing about any other. While it can't be read, these topics are on hold."""

    file: Text
    """The policy file, relative to this file."""

    topics: tuple[TopicRegex, ...] = Field(min_length=1)
    """The topics of the fence, as regular expressions (RE2 syntax) that match a topic's whole
    name."""

    at_least_ms: Duration | None = Field(default=None, alias="at_least")
    """The shortest consumed and pressure retention that the file may set, as in 1h. By default
    any."""

    forbid: tuple[Setting, ...] = ()
    """Settings that the file may not have, as in groups.only. By default none."""

    secrets: Text | None = None
    """The only folder that `${file:PATH}` in the policy file may lead to, relative to this file. By
    default it takes nothing from outside."""


KINDS_OF_POLICY_FILES = _GLOB, _FENCE = "(glob)", "(fence)"
"""Pydantic puts them into an error's path."""


def _kind(value: object) -> str:
    return _FENCE if isinstance(value, Mapping | Fence) else _GLOB


def _listed(value: object) -> object:
    if isinstance(value, list | tuple) and not value:
        raise refused("expected one glob or more, as in policies.d/*.yaml")
    return value if isinstance(value, list | tuple) else [value]


_ENTRY = Annotated[
    Annotated[Text, Tag(_GLOB)] | Annotated[Fence, Tag(_FENCE)], Discriminator(_kind)
]


class _OneOrMore:
    """One text stands for a list of it."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        one = {"type": "string", "minLength": 1}
        return {"anyOf": [one, handler(schema) | {"minItems": 1}]}


PolicyFiles = Annotated[tuple[_ENTRY, ...], BeforeValidator(_listed), _OneOrMore()]


@dataclass(frozen=True, slots=True)
class PlacedFence:
    """``place``: where the main file has it, as ``policies[0]``."""

    place: str
    fence: Fence

    @property
    def file(self) -> str:
        return self.fence.file

    def __contains__(self, topic: str) -> bool:
        return any(regex.fullmatch(topic) for regex in self.fence.topics)

    @property
    def topics(self) -> str:
        return f"topics matching {listed([regex.pattern for regex in self.fence.topics], 'or')}"

    def __str__(self) -> str:
        return f"the fence {self.place} of {self.file} ({self.topics})"

    @property
    def conditions(self) -> str:
        """What it asks of its file, in words; empty where that is nothing."""
        at_least_ms, forbidden = self.fence.at_least_ms, self.fence.forbid
        said = [] if at_least_ms is None else [f"a retention of at least {_duration(at_least_ms)}"]
        return " and ".join([*said, *([f"no {listed(forbidden, 'or')}"] if forbidden else [])])

    def refuse_forbidden(self, rules: TopicRules, place: str) -> None:
        """Raises ConfigError for a setting that the file may not have."""
        forbidden = [_KEYS[name] for name in _KEYS if name in rules.model_fields_set]
        if rules.groups is not None:
            forbidden += [_KEYS_OF_GROUPS[name] for name in rules.groups.model_fields_set]
        for key in sorted(set(forbidden) & set(self.fence.forbid)):
            raise refusal(f"{self} forbids this setting; take it out", f"{place}.{key}")

    def refuse_short(self, policy: TopicPolicy, rules: Sequence[tuple[str, TopicRules]]) -> None:
        """Raises ConfigError for an entry that enables topics with a retention that is too short.
        ``rules``: the file's, each behind its place; those of the entry come last."""
        at_least_ms = self.fence.at_least_ms
        for kind, ms in (
            ("", policy.consumed_retention_ms),
            (PRESSURE, policy.pressure_retention_ms),
        ):
            keys = ((place, entry_rules.key_of_retention(kind)) for place, entry_rules in rules)
            said = [f"{place}.{key}" for place, key in keys if key]
            if ms is None or not (said or policy.enabled):
                continue
            if at_least_ms is not None and ms < at_least_ms:
                raise refusal(
                    f"{self} asks for a {'pressure' if kind else 'consumed'} retention of "
                    f"{_duration(at_least_ms)} or more, not {_duration(ms)}",
                    [rules[-1][0], *said][-1],
                )


def _duration(ms: int) -> str:
    return say_duration(ms) or "0 s"


@dataclass(frozen=True, slots=True)
class Fences:
    """All of them, ready to be asked for thousands of topics."""

    every: tuple[PlacedFence, ...] = ()
    _around: dict[str, tuple[PlacedFence, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def around(self, topic: str) -> tuple[PlacedFence, ...]:
        if topic not in self._around:
            self._around[topic] = tuple(fence for fence in self.every if topic in fence)
        return self._around[topic]

    def of(self, file: str) -> PlacedFence | None:
        """That of a file by the name that the fence has for it."""
        return next((fence for fence in self.every if fence.file == file), None)

    def let(self, file: str, topic: str) -> bool:
        """Whether a pattern of the file may match the topic. Empty is the main file."""
        return [fence.file for fence in self.around(topic)] == (
            [file] if self.of(file) is not None else []
        )


NO_FENCES = Fences()
