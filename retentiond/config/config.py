"""The whole file as frozen values: every setting, its default and what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from retentiond.config.duration import MINUTE_MS
from retentiond.config.policy import Policies, PolicyConflict, TopicPolicy, work_out_policies
from retentiond.config.properties import KafkaProperties, Properties, PropertyMap, Users
from retentiond.config.section import Section
from retentiond.config.topics import TopicEntry, TopicRules
from retentiond.config.values import (
    Count,
    CountOrNull,
    File,
    Flag,
    Folder,
    Interval,
    Port,
    Text,
)


class Schedule(Section):
    interval_ms: Interval = Field(
        default=5 * MINUTE_MS, alias="interval", json_schema_extra={"default": "5m"}
    )
    """Time from the start of one cycle to the next, 1s or more: a number with its unit
    (ms, s, m, h, d), as in 90s or 5m."""


class Tls(Section):
    certificate: File
    """PEM file of the certificate and those that lead from it to an authority. It is read again
    when it has changed."""

    key: File
    """PEM file of its key, without a pass phrase."""


class Http(Section):
    host: Text = "0.0.0.0"
    """Address to listen on."""

    port: Port = 9477
    """Port of metrics, health and status page; 0 takes any free one."""

    tls: Tls | None = None
    """With it the port speaks HTTPS only."""

    basic_auth: Users | None = None
    """The users that the port lets in, each with the bcrypt hash of a password, as
    `htpasswd -nB USER` makes it. Without it the port lets everybody in."""


class Secured(Section):
    """Of `Http`, what concerns a port whose address is given otherwise."""

    tls: Tls | None = None
    basic_auth: Users | None = None


class HttpFile(Section):
    """A file of its own for such a port."""

    http: Secured


class Spark(Section):
    master: Text = "local[2]"
    """Where the plan is worked out: local[N], spark://…, sc://… (Spark Connect) or k8s://…"""

    conf: PropertyMap = Field(default_factory=lambda: Properties({}))
    """Spark's own properties, handed on as they are."""


class Limits(Section):
    records_per_cycle: CountOrNull = None
    """The most records that one cycle deletes; null is no limit."""

    partitions_per_cycle: CountOrNull = None
    """The most partitions that one cycle deletes from; null is no limit."""

    settle_cycles: Count = 1
    """Complete cycles in a row that must agree on a topic's groups before its first deletion."""


class Config(Section):
    """The configuration. Everything below it is frozen and checked."""

    kafka: KafkaProperties
    """Kafka's client properties, as in a Java properties file; each value is taken literally."""

    schedule: Schedule = Field(default_factory=Schedule)
    """When a cycle runs."""

    dry_run: Flag = True
    """Whether cycles only plan and explain, and delete nothing."""

    state_dir: Folder = Path("/var/lib/retentiond")
    """Folder of the audit log and the remembered groups: one for each daemon."""

    http: Http = Field(default_factory=Http)
    """The one port for metrics, health and status page."""

    spark: Spark = Field(default_factory=Spark)
    """Where and how Spark works the plan out."""

    limits: Limits = Field(default_factory=Limits)
    """How much one cycle may delete, and how soon."""

    defaults: TopicRules = Field(default_factory=TopicRules)
    """What every entry of `topics` starts from."""

    topics: tuple[TopicEntry, ...] = Field(min_length=1)
    """The topics that the policy is about; any other is left alone."""

    _policies: Policies = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._policies = work_out_policies(self.defaults, self.topics)

    def policy_for(self, topic: str) -> TopicPolicy | PolicyConflict | None:
        """The policy of an enabled topic; None where nothing enables it."""
        return self._policies.policy_for(topic)

    @property
    def policies(self) -> tuple[TopicPolicy, ...]:
        """The policy of each entry of `topics`, in the file's order, disabled ones included."""
        return self._policies.of_entries
