"""The whole file as frozen values, and what its entries mean in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from retentiond.config.client_properties import KafkaProperties, Properties, PropertyMap, Users
from retentiond.config.disks import DiskPressureOrNull
from retentiond.config.external_reader import ExternalReader
from retentiond.config.fences import Fence, Fences, PlacedFence, PolicyFiles
from retentiond.config.no_policy import FILE_END, NoPolicy, UnreadableFile
from retentiond.config.policy import Policies, PolicyEntry, work_out_policies
from retentiond.config.rules import PolicyFile, TopicEntry, TopicRules
from retentiond.config.settings import TopicPolicy
from retentiond.config.values import (
    Count,
    CountOrNull,
    DurationOrNull,
    File,
    Flag,
    Folder,
    FolderOrStore,
    Host,
    Interval,
    Port,
    Section,
    Size,
    SparkMaster,
    TextOrNull,
    check_history_folder,
    default_duration,
    missing,
    refused,
)
from retentiond.formatting import MIB, say_names
from retentiond.state_places import daemon_state_dir


class Schedule(Section):
    interval_ms: Interval = default_duration("interval", "5m")
    """Time from the start of one cycle to the next, 1s or more: a number with its unit
    (ms, s, m, h, d), as in 90s or 5m."""

    pressure_interval_ms: Interval = default_duration("pressure_interval", "30s")
    """Like `interval`, while a log directory is under pressure (`disk_pressure`). The shorter of
    the two counts."""

    @property
    def under_pressure_ms(self) -> int:
        return min(self.interval_ms, self.pressure_interval_ms)


class Tls(Section):
    certificate: File
    """PEM file of the certificate chain: the certificate first, then the intermediate
    certificates. It is read again when it has changed."""

    key: File
    """PEM file of the certificate's key, without a pass phrase."""


class Http(Section):
    host: Host = "0.0.0.0"
    """Address to listen on. `0.0.0.0`, like `::`, stands for all addresses of this host, of IPv4
    and IPv6."""

    port: Port = 9477
    """Port of metrics, health and status page; 0 takes any free one."""

    tls: Tls | None = None
    """If it is set, the port speaks HTTPS only."""

    basic_auth: Users | None = None
    """The users that may use the port, each with the bcrypt hash of a password, as
    `htpasswd -nB USER` prints it. If it is not set, everybody may."""


class Spark(Section):
    master: SparkMaster = "local[2]"
    """Where the plan is computed: local[N], spark://…, sc://… (Spark Connect) or k8s://…"""

    conf: PropertyMap = Field(default_factory=lambda: Properties({}))
    """Spark's own properties. They are passed on unchanged, and never on a command line."""

    timeout_ms: Interval = default_duration("timeout", "2m")
    """How long Spark may take for a plan, its own start included. After that the cycle fails, and
    the next cycle starts another JVM, or another session at the server."""


class Worthwhile(Section):
    minimum_bytes: Size = Field(default=MIB, alias="bytes", json_schema_extra={"default": "1MiB"})
    """What would free less than this waits: a number with its unit (B, KiB, MiB, GiB, TiB), as in
    1MiB. The bytes are those of all replicas."""

    after_ms: Interval = default_duration("after", "1h")
    """It waits until it frees as much, or until it could have gone for so long."""

    def written(self) -> dict[str, str]:
        """As a file writes it."""
        return self.model_dump(by_alias=True)


class Limits(Section):
    records_per_cycle: CountOrNull = None
    """The most records that one cycle deletes; null means no limit."""

    partitions_per_cycle: CountOrNull = None
    """The most partitions that one cycle deletes from; null means no limit."""

    settle_cycles: Count = 1
    """How many complete cycles in a row must see the same groups on a topic before its first
    deletion."""

    worthwhile: Worthwhile | None = None
    """Lets a deletion wait that would free too little: a broker frees whole segments, so a deletion
    within one frees nothing. Nothing waits under disk pressure. Without this section nothing waits
    at all."""

    @property
    def has_any(self) -> bool:
        """Whether some deletions may be left to later cycles, so that their order matters."""
        return self.records_per_cycle is not None or self.partitions_per_cycle is not None


class History(Section):
    enabled: Flag = True
    """Whether each cycle's figures are kept for `retentiond simulate`, `recommend` and
    `report`."""

    path: FolderOrStore = None
    """A folder, or an object store's URL (s3a://bucket/retentiond, gs://…, az://…), whose
    credentials come from the environment; null means `history` in the `state_dir`."""

    interval_ms: Interval = default_duration("interval", "5m")
    """A cycle writes one entry, at most once in this time."""

    keep_ms: Interval = default_duration("keep", "30d")
    """How long an entry is kept. Entries are removed by whole days."""

    max_bytes: CountOrNull = None
    """The most bytes that all entries take. The oldest days are removed first. null means no
    limit."""


class MetricSettings(Section):
    cluster: TextOrNull = None
    """What you call this Kafka cluster: the label `kafka_cluster` of `retentiond_cluster_info`."""

    partitions: Flag = True
    """Whether there are series for each partition. Series for each topic are always there."""


class Reloading(Section):
    watch: Flag = False
    """Whether the daemon reads the configuration again by itself once its files have changed. It
    looks at them before each cycle, and takes what has stayed the same for five seconds."""


class AuditLog(Section):
    keep_ms: DurationOrNull = default_duration("keep", "400d")
    """How long an entry of a deletion is kept. Its age is measured by the kernel's monotonic
    clock, never by the date. null means for ever. An entry whose outcome may still become known
    stays."""

    max_bytes: CountOrNull = Field(default=5 * 1024**3, json_schema_extra={"default": 5 * 1024**3})
    """The most bytes that all entries take. Above that the oldest entries are removed, however
    young they are. null means no limit."""

    log: Flag = False
    """Whether each deletion is also a line of the log, so that a collector of logs has it."""


class Config(Section):
    """The configuration. Everything below it is frozen and checked."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["topics"]}, {"required": ["policies"]}]}
    )

    kafka: KafkaProperties
    """Kafka's client properties, as in a Java properties file; each value is taken literally."""

    schedule: Schedule = Field(default_factory=Schedule)
    """When a cycle runs."""

    dry_run: Flag = True
    """Whether cycles only plan and explain, and delete nothing. An entry of `topics` may say it for
    its own topics, as a trial."""

    state_dir: Folder = Field(default_factory=daemon_state_dir)
    """Directory of the audit log, the history and the remembered groups, one for each daemon. By
    default `/var/lib/retentiond` if it exists or can be created. Otherwise a folder in your home;
    then set `state_dir` before you turn `dry_run` off. If a daemon has already kept its memory in
    the folder in your home, that folder stays the default."""

    http: Http = Field(default_factory=Http)
    """The port for metrics, health and the status page."""

    metrics: MetricSettings = Field(default_factory=MetricSettings)
    """What `/metrics` shows."""

    spark: Spark = Field(default_factory=Spark)
    """Where and how Spark computes the plan."""

    limits: Limits = Field(default_factory=Limits)
    """How much one cycle may delete, and how soon."""

    disk_pressure: DiskPressureOrNull = None
    """When a log directory of a broker is under pressure: retentiond then deletes consumed records
    there sooner. null means never."""

    history: History = Field(default_factory=History)
    """What each cycle saw, kept so that a policy can be tried on the past."""

    reload: Reloading = Field(default_factory=Reloading)
    """When the daemon reads the configuration again, besides at a SIGHUP."""

    audit: AuditLog = Field(default_factory=AuditLog)
    """How long entries of the audit log are kept, and how much room they may take."""

    defaults: TopicRules = Field(default_factory=TopicRules)
    """The values that every entry of `topics` starts from."""

    topics: tuple[TopicEntry, ...] = Field(default=(), min_length=1)
    """The topics that the policy covers; any other topic is left alone. Required, unless `policies`
    names files that have them."""

    policies: PolicyFiles | None = None
    """Policy files of teams, relative to this file: a glob, or a list of globs and of files with
    their fences. Each file has `owner`, `topics` and, optionally, `defaults`."""

    _policies: Policies = PrivateAttr()
    _base_dir: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _topics_somewhere(self) -> Self:
        if not self.topics and self.policies is None:
            raise refused(missing(type(self).model_fields["topics"].description), "topics")
        return self

    @model_validator(mode="after")
    def _history_somewhere(self) -> Self:
        if not self.history.enabled:
            return self
        if self.history.path is None:
            check_history_folder(self.state_dir, "or set history.path", "state_dir")
        elif "://" not in self.history.path:
            without = "or set history.enabled to false"
            check_history_folder(Path(self.history.path), without, "history", "path")
        return self

    def model_post_init(self, context: Any) -> None:
        self._policies = work_out_policies(self.defaults, self.topics)

    @property
    def heeds_pressure(self) -> bool:
        """Whether some topic has a pressure retention, and pressure can come."""
        return self.disk_pressure is not None and any(
            entry.policy.enabled and entry.policy.pressure_retention_ms is not None
            for entry in self.entries
        )

    @property
    def fences(self) -> Fences:
        return Fences(
            tuple(
                PlacedFence(f"policies[{index}]", item)
                for index, item in enumerate(self.policies or ())
                if isinstance(item, Fence)
            )
        )

    def add_files(
        self,
        files: Iterable[PolicyFile | UnreadableFile],
        base_dir: Path = Path(),
        readers_in_force: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Raises ConfigError, which names file and path, where entries contradict each other."""
        self._base_dir = base_dir
        self._policies = work_out_policies(
            self.defaults, self.topics, files, self.fences, readers_in_force
        )

    @property
    def readers(self) -> Mapping[str, object]:
        """As `Policies.readers`."""
        return self._policies.readers

    @property
    def spark_queries(self) -> frozenset[ExternalReader]:
        """As `Policies.spark_queries`."""
        return self._policies.spark_queries

    @property
    def base_dir(self) -> Path:
        """The folder that the names of policy files are relative to."""
        return self._base_dir

    @property
    def unreadable(self) -> tuple[UnreadableFile, ...]:
        return self._policies.unreadable

    def holding(self, files: Iterable[UnreadableFile], *before: Self) -> Self:
        """As `Policies.holding`."""
        held = self.model_copy()
        held._policies = self._policies.holding(files, *(config._policies for config in before))
        return held

    def looking_at(self, entries: Iterable[TopicEntry]) -> Self:
        """It with these entries in place of all others. It deletes nothing and has no limits."""
        update = {"dry_run": True, "limits": Limits(), "topics": tuple(entries), "policies": None}
        look = self.model_copy(update=update)
        look.add_files(())
        return look

    def policy_for(self, topic: str) -> TopicPolicy | NoPolicy | None:
        return self._policies.policy_for(topic)

    def said_of_required(
        self, reader: str, topics: Iterable[str], *, is_external: bool
    ) -> str | None:
        """Which files require the reader on some of the topics, so that these stay held without it.
        None: none does."""
        by_file: dict[str, list[str]] = {}
        for topic in sorted(set(topics)):
            policy = self.policy_for(topic)
            if isinstance(policy, TopicPolicy) and (
                (reader, is_external) in policy.required_readers()
            ):
                file = policy.sources[0].rpartition(FILE_END)[0] if policy.sources else ""
                by_file.setdefault(file or "the main file", []).append(topic)
        if not by_file:
            return None
        said = (f"{file} requires it on {say_names(names, 3)}" for file, names in by_file.items())
        return f"{'; '.join(said)}: take it out there first"

    @property
    def history_path(self) -> str:
        """A folder, or an object store's URL."""
        return self.history.path or str(self.state_dir / "history")

    @property
    def entries(self) -> tuple[PolicyEntry, ...]:
        return self._policies.entries

    @property
    def policy_files(self) -> tuple[str, ...]:
        return self._policies.files

    @property
    def exact_names(self) -> frozenset[str]:
        return frozenset(entry.entry.name for entry in self.entries if entry.entry.name is not None)

    def matches(self, topic: str) -> bool:
        return self._policies.matches(topic)

    def can_add(self, file: Path, topic: str) -> bool:
        """Whether no entry is about the topic, and the fences let this policy file have one."""
        path = file.resolve()
        fenced = (fence.file for fence in self.fences.every)
        name = next((name for name in fenced if (self.base_dir / name).resolve() == path), "")
        return not self._policies.has_entry(topic) and self.fences.let(name, topic)
