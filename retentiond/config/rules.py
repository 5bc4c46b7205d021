"""What the file says about topics: its sections ``defaults`` and ``topics``, before they are put
together.

KIP-68's keys are literal: ``retention.commitoffset.hours`` is one key. A setting of None was not
set in its place. What each setting means for a topic stands in `retentiond.config.settings`.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from retentiond.config.external_reader import ExternalReader
from retentiond.config.values import (
    INT64_MAX,
    Count,
    CountingPatterns,
    Duration,
    Flag,
    GroupRegex,
    Name,
    NotBlank,
    Section,
    TopicName,
    TopicRegex,
    Visibility,
    reads,
    refused,
    whole,
)
from retentiond.formatting import HOUR_MS, MINUTE_MS

# Kafka's times are int64 milliseconds.
Hours = Annotated[int, Field(ge=0, le=INT64_MAX // HOUR_MS), reads(whole)]
Minutes = Annotated[int, Field(ge=0, le=INT64_MAX // MINUTE_MS), reads(whole)]
Milliseconds = Annotated[int, Field(ge=0, le=INT64_MAX), reads(whole)]


RETENTION_UNITS_MS = {"ms": 1, "minutes": MINUTE_MS, "hours": HOUR_MS}
"""The units of a retention; as in Kafka, an earlier one beats a later one."""


PRESSURE = "pressure."
"""Before the unit of a pressure retention."""


class GroupRules(Section):
    """Which groups decide over a topic."""

    required: tuple[Name, ...] | None = None
    """Groups that must have committed on the topic; it is held until they have. By default none."""

    exclude: tuple[GroupRegex, ...] | None = None
    """Regular expressions (RE2 syntax). A group whose whole id matches one of them does not count:
    what it has not read can be deleted. By default none."""

    only: CountingPatterns | None = None
    """Regular expressions (RE2 syntax), one or more. Only groups whose whole id matches one of them
    count: what any other group has not read can be deleted. `.` also matches a newline. By default
    every group counts."""

    external: tuple[ExternalReader, ...] | None = None
    """Readers that keep their position elsewhere than in Kafka; each counts as a group. By default
    none."""

    min: Count | None = None
    """How many groups must count at least. With fewer the topic is held. By default 1."""

    forget_vanished_after_ms: Duration | None = Field(default=None, alias="forget_vanished_after")
    """How long a vanished group holds what it has not read, as in 30d. Only time in which cycles
    saw that it was gone counts. By default it holds until an operator forgets it. If `defaults` set
    a time, give a topic a very long one (36500d) to undo that."""


class TopicRules(Section):
    """What holds for topics: for all of them under `defaults`, for some under `topics`."""

    enable: Flag | None = Field(default=None, alias="retention.commitoffset.enable")
    """Whether consumed records are deleted. By default false."""

    dry_run: Flag | None = None
    """Whether the topic is on trial: it is planned and recorded like any other, and nothing is
    deleted from it. The main file's `dry_run: true` puts every topic on trial. By default false."""

    hours: Hours | None = Field(default=None, alias="retention.commitoffset.hours")
    """The consumed retention: how long a record stays at least, in hours. 0 means "as soon as
    consumed". By default 168. Any unit set on a topic beats all units of `defaults`."""

    minutes: Minutes | None = Field(default=None, alias="retention.commitoffset.minutes")
    """The consumed retention in minutes; beats hours."""

    ms: Milliseconds | None = Field(default=None, alias="retention.commitoffset.ms")
    """The consumed retention in milliseconds; beats minutes and hours."""

    pressure_hours: Hours | None = Field(
        default=None, alias="retention.commitoffset.pressure.hours"
    )
    """The pressure retention, in hours. It replaces the consumed retention while a log directory
    with a replica is under pressure (`disk_pressure`), as far as that is needed. At most the
    consumed retention. By default none: pressure changes nothing."""

    pressure_minutes: Minutes | None = Field(
        default=None, alias="retention.commitoffset.pressure.minutes"
    )
    """The pressure retention in minutes; beats hours."""

    pressure_ms: Milliseconds | None = Field(
        default=None, alias="retention.commitoffset.pressure.ms"
    )
    """The pressure retention in milliseconds; beats minutes and hours."""

    groups: GroupRules | None = None
    """Which groups count; each key set on a topic beats the same key of `defaults`."""

    allow_compacted: Flag | None = None
    """Whether records of a topic with cleanup.policy `compact,delete` can be deleted.
    By default false."""

    groups_visible: Visibility | None = None
    """`checked`: hold everything while Kafka may hide groups from retentiond's principal.
    `assumed`: delete anyway, with a warning in each cycle. By default checked."""

    @property
    def consumed_retention_ms(self) -> int | None:
        """None: this place sets no unit of it."""
        return _first_set((self.ms, self.minutes, self.hours))

    @property
    def pressure_retention_ms(self) -> int | None:
        return _first_set((self.pressure_ms, self.pressure_minutes, self.pressure_hours))

    def key_of_retention(self, kind: str) -> str | None:
        """The key that sets a retention here. ``kind``: `PRESSURE`, or empty for the consumed
        one."""
        for unit in RETENTION_UNITS_MS:
            if getattr(self, f"{kind}{unit}".replace(".", "_")) is not None:
                return f"retention.commitoffset.{kind}{unit}"
        return None


def _first_set(values: tuple[int | None, ...]) -> int | None:
    """In milliseconds, by the first unit that is set."""
    for value, unit_ms in zip(values, RETENTION_UNITS_MS.values(), strict=True):
        if value is not None:
            return value * unit_ms
    return None


class TopicEntry(TopicRules):
    """One entry of `topics`: a topic by its name, or all whose name matches a pattern."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["name"], "properties": {"pattern": False, "except": False}},
                {"required": ["pattern"], "properties": {"name": False}},
            ]
        }
    )

    name: TopicName | None = None
    """The topic's exact name; beats every pattern."""

    pattern: TopicRegex | None = None
    """A regular expression (RE2 syntax) that must match a topic's whole name."""

    exceptions: tuple[TopicRegex, ...] | None = Field(default=None, alias="except")
    """Exceptions from `pattern`, as regular expressions (RE2 syntax). The entry does not apply to a
    topic whose whole name matches one of them. By default none."""

    @model_validator(mode="after")
    def _one_of_name_and_pattern(self) -> Self:
        if (self.name is None) == (self.pattern is None):
            both_or_none = "not both" if self.name else "here are neither"
            raise refused(f"expected either a name or a pattern, {both_or_none}")
        if self.exceptions is not None and self.pattern is None:
            raise refused("this goes with a pattern only", "except")
        return self


class PolicyFile(Section):
    """A policy file of a team, as `policies` names it. Nothing else may stand there."""

    owner: NotBlank
    """Who is asked about these topics."""

    defaults: TopicRules = Field(default_factory=TopicRules)
    """The values that every entry of this file starts from; they refine those of the main file."""

    topics: tuple[TopicEntry, ...] = Field(min_length=1)
    """The topics that this file's policy covers."""

    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """As `policies` leads to it."""
        return self._name

    def named(self, name: str) -> Self:
        self._name = name
        return self
