"""The names of all log events. Facts go beside them as key-values, never into the name."""

from __future__ import annotations

STARTED = "retentiond.started"
"""The daemon runs: version, config, http address, interval, dry_run."""

CYCLE = "retentiond.cycle"
"""One canonical line for each cycle: its result, figures and seconds by step."""

CYCLE_FAILED = "retentiond.cycle_failed"
"""Cycles fail since now: the error. Said once, not for every try."""

CYCLE_RECOVERED = "retentiond.cycle_recovered"
"""Cycles no longer fail: after how many tries."""

DELETION_UNCLEAR = "retentiond.deletion_unclear"
"""A deletion failed or its outcome is unknown: topic, partition, cutoff, error."""

DELETION_SETTLED = "retentiond.deletion_settled"
"""A deletion left open by an earlier cycle or run has an outcome now."""

CONFIG_RELOADED = "retentiond.config_reloaded"
"""SIGHUP: the new configuration is in force from the next cycle on."""

CONFIG_REFUSED = "retentiond.config_refused"
"""SIGHUP: the file is bad; the old configuration stays in force."""

CONFIG_NEEDS_RESTART = "retentiond.config_needs_restart"
"""SIGHUP: these settings changed, and are read at start only."""

CERTIFICATE_RENEWED = "retentiond.certificate_renewed"
"""The files of http.tls have changed: new connections are shown the new certificate."""

CERTIFICATE_REFUSED = "retentiond.certificate_refused"
"""The files of http.tls have changed and can't be used: the old certificate stays. Said once."""

STOPPING = "retentiond.stopping"
"""A signal asked the daemon to end."""

STOPPED = "retentiond.stopped"
"""The daemon has ended; whether a cycle was abandoned in the middle of a reading."""

ORPHANS = "retentiond.orphans"
"""A look at a broker's log directories: orphans and bytes by directory, what was removed."""

ORPHANS_FAILED = "retentiond.orphans_failed"
"""A look failed: the error. The next one comes after the interval."""

ORPHAN_REMOVED = "retentiond.orphan_removed"
"""A folder was removed, or its removal failed or was given up: folder, bytes, fate, reason."""
