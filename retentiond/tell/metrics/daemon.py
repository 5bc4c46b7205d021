"""The metrics that tell of the daemon itself. Each scrape reads them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from retentiond.config.no_policy import UnreadableFile
from retentiond.errors import ConfigError
from retentiond.formatting import label
from retentiond.history.keeper import HistoryStatus
from retentiond.tell.metrics.definition import COUNTER, HISTOGRAM, INFO, Definition, single


@dataclass(slots=True)
class DaemonFigures:
    """What the daemon shows of itself. A function is called at each scrape; None is not known."""

    build: Mapping[str, str] = field(default_factory=dict)
    started_at_s: float = 0
    last_complete_s: float = 0
    interval_s: float | None = None
    dry_run: bool | None = None
    paused: bool = False
    reload_succeeded: bool = True
    cluster_id: str = ""
    cluster_name: str = ""
    unreadable: Sequence[UnreadableFile] = ()
    refused: ConfigError | None = None
    is_ready: Callable[[], bool | None] = lambda: None
    audit_log_bytes: Callable[[], float | None] = lambda: None
    audit_keep_s: float | None = None
    audit_max_bytes: float | None = None
    audit_bytes: Callable[[], float | None] = lambda: None
    audit_oldest_s: Callable[[], float | None] = lambda: None
    certificate_expiry_s: Callable[[], float | None] = lambda: None
    state_dir_usable_bytes: Callable[[], float | None] = lambda: None
    history: Callable[[], HistoryStatus] = HistoryStatus
    dropped_log_lines: Callable[[], int] = lambda: 0


CYCLES: Definition[DaemonFigures] = Definition(
    "retentiond_cycles_total",
    "Cycles, by result: ok, incomplete (evidence was missing, or a deletion was not done), failed.",
    ("result",),
    type=COUNTER,
)
CYCLE_SECONDS: Definition[DaemonFigures] = Definition(
    "retentiond_cycle_duration_seconds",
    "Seconds that a cycle took, by step; step=all is the whole cycle.",
    ("step",),
    type=HISTOGRAM,
)
REQUEST_SECONDS: Definition[DaemonFigures] = Definition(
    "retentiond_kafka_request_duration_seconds",
    "Seconds that Kafka took to answer, by api and result (ok, failed).",
    ("api", "result"),
    type=HISTOGRAM,
)
EVIDENCE_AGE_SECONDS: Definition[DaemonFigures] = Definition(
    "retentiond_evidence_age_seconds",
    "Seconds from the beginning of the second reading, before it asks for the first commit, until "
    "the last request that rests on it. Nothing is requested on one that is older than 5 seconds.",
    type=HISTOGRAM,
)
LOOK_TO_REQUEST_SECONDS: Definition[DaemonFigures] = Definition(
    "retentiond_look_to_request_duration_seconds",
    "Seconds from the last check of topic ids until DeleteRecords was handed over.",
    type=HISTOGRAM,
)
THROTTLED_SECONDS: Definition[DaemonFigures] = Definition(
    "retentiond_kafka_throttled_duration_seconds",
    "Seconds that a request waited because of a broker's quota, before it went out.",
    type=HISTOGRAM,
)
OBSERVED = (
    CYCLES,
    CYCLE_SECONDS,
    REQUEST_SECONDS,
    EVIDENCE_AGE_SECONDS,
    LOOK_TO_REQUEST_SECONDS,
    THROTTLED_SECONDS,
)
"""The metrics of events."""

DAEMON_METRICS: tuple[Definition[DaemonFigures], ...] = (
    Definition(
        "retentiond_last_complete_cycle_timestamp_seconds",
        "Time of the last complete cycle's plan, in epoch seconds; 0: there was none. A restart "
        "does not change it. A complete cycle had all evidence and did all that it had planned.",
        samples=single(lambda daemon: daemon.last_complete_s),
    ),
    Definition(
        "retentiond_ready",
        "1 while /readyz says ready, else 0. Ready: a cycle with complete evidence within three "
        "intervals, or within three times what it took, whatever became of its deletions.",
        samples=single(lambda daemon: daemon.is_ready()),
    ),
    Definition(
        "retentiond_log_lines_dropped_total",
        "Lines of the log that could not be written: its reader stands still, or its disk is full.",
        samples=single(lambda daemon: daemon.dropped_log_lines()),
        type=COUNTER,
    ),
    Definition(
        "retentiond_started_timestamp_seconds",
        "When the daemon started, in epoch seconds.",
        samples=single(lambda daemon: daemon.started_at_s),
    ),
    Definition(
        "retentiond_schedule_interval_seconds",
        "The interval of cycles that is in force (schedule.interval).",
        samples=single(lambda daemon: daemon.interval_s),
    ),
    Definition(
        "retentiond_dry_run",
        "1 if the last cycle was a dry run, which deletes nothing, else 0. Before the first cycle: "
        "whether it will be one.",
        samples=single(lambda daemon: daemon.dry_run),
    ),
    Definition(
        "retentiond_paused",
        "1 if an operator had paused deletion when the last cycle ended or failed (before the "
        "first one: when the daemon started), else 0.",
        samples=single(lambda daemon: daemon.paused),
    ),
    Definition(
        "retentiond_config_last_reload_successful",
        "1 if the last reload of the configuration succeeded, else 0.",
        samples=single(lambda daemon: daemon.reload_succeeded),
    ),
    Definition(
        "retentiond_configuration_refused",
        "1 while the configuration on disk is refused and an older one is in force, with the file "
        "that is wrong and its owner (each empty where that is not known).",
        ("file", "owner"),
        lambda daemon: [
            ((label(error.file or ""), label(error.owner)), 1)
            for error in ([] if daemon.refused is None else [daemon.refused])
        ],
    ),
    Definition(
        "retentiond_policy_unreadable",
        "1 for each fenced policy file that is missing, unreadable or bad, with its owner (empty "
        "where it can't be read): the topics of its fence are held.",
        ("file", "owner"),
        lambda daemon: [((label(file.name), label(file.owner)), 1) for file in daemon.unreadable],
    ),
    Definition(
        "retentiond_state_dir_usable_bytes",
        "Bytes that retentiond may still write on the disk of state_dir; NaN if they can't be "
        "read.",
        samples=single(lambda daemon: daemon.state_dir_usable_bytes()),
    ),
    Definition(
        "retentiond_audit_log_bytes",
        "Bytes of the audit log's files, free room for further entries included; 0 without files.",
        samples=single(lambda daemon: daemon.audit_log_bytes()),
    ),
    Definition(
        "retentiond_audit_keep_seconds",
        "How long entries of the audit log are to be kept (audit.keep); absent without a bound.",
        samples=single(lambda daemon: daemon.audit_keep_s),
    ),
    Definition(
        "retentiond_audit_max_bytes",
        "How much the audit log's entries may take (audit.max_bytes); absent without a bound.",
        samples=single(lambda daemon: daemon.audit_max_bytes),
    ),
    Definition(
        "retentiond_audit_bytes",
        "What the audit log's entries take, as audit.max_bytes counts it: without free room in its "
        "file. Absent without a log, and if it can't be read.",
        samples=single(lambda daemon: daemon.audit_bytes()),
    ),
    Definition(
        "retentiond_audit_oldest_entry_timestamp_seconds",
        "Time of the oldest cycle in the audit log, in epoch seconds: how far back the log goes. "
        "Absent while there is no entry, and if it can't be read.",
        samples=single(lambda daemon: daemon.audit_oldest_s()),
    ),
    Definition(
        "retentiond_client_certificate_expiry_timestamp_seconds",
        "When the certificate expires that the daemon shows to the brokers, in epoch seconds; "
        "absent without one, and if it can't be read.",
        samples=single(lambda daemon: daemon.certificate_expiry_s()),
    ),
    Definition(
        "retentiond_history_bytes",
        "Bytes of the history's files of this cluster.",
        samples=single(lambda daemon: daemon.history().bytes),
    ),
    Definition(
        "retentiond_history_last_write_timestamp_seconds",
        "Time of the last entry of the history that was written, in epoch seconds; absent before "
        "the first one, and while history.enabled is false.",
        samples=single(lambda daemon: daemon.history().written_at),
    ),
    Definition(
        "retentiond_history_failures_total",
        "Entries of the history that could not be written, and older ones that could not be "
        "merged or removed.",
        samples=single(lambda daemon: daemon.history().failures),
        type=COUNTER,
    ),
    Definition(
        "retentiond_cluster_info",
        "The Kafka cluster: its id (empty while unknown) and the operator's name for it "
        "(metrics.cluster).",
        ("cluster_id", "kafka_cluster"),
        lambda daemon: [((daemon.cluster_id, daemon.cluster_name), 1)],
        type=INFO,
    ),
    Definition(
        "retentiond_build_info",
        "Versions of retentiond, Spark and librdkafka.",
        BUILD := ("version", "spark_version", "librdkafka_version"),
        lambda daemon: [(tuple(daemon.build.get(name, "") for name in BUILD), 1)],
        type=INFO,
    ),
)
