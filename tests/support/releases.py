"""The Kafka releases that the project is tested with, and what each of them has.

The tests run the oldest, the last with a ZooKeeper and the newest. ``$RETENTIOND_RELEASES`` names
others, by their labels; ``all`` is every release (``scripts/versions``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from devkit.embedded import DEFAULT_VERSION, EmbeddedKafka, default_version
from retentiond.model import GroupKind

NEW_GROUPS = "group.coordinator.rebalance.protocols"

COUNTS, HELD = True, False


@dataclass(frozen=True)
class Release:
    """``kinds``: those of its groups, and whether one counts like any other (`COUNTS`) or holds all
    that it may read, because the release can't tell what that is (`HELD`). ``config`` and
    ``features`` turn on what a release has as a preview."""

    version: str
    zookeeper: bool = False
    kinds: Mapping[GroupKind, bool] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.version}-zookeeper" if self.zookeeper else self.version

    def broker(self) -> EmbeddedKafka:
        options = [option for feature in self.features for option in ("--feature", feature)]
        return EmbeddedKafka(
            version=self.version,
            zookeeper=self.zookeeper,
            config=self.config,
            format_options=options,
        )

    @property
    def is_default(self) -> bool:
        return self.version == default_version() and not self.config


CLASSIC = {GroupKind.CLASSIC: COUNTS}
CONSUMER = {**CLASSIC, GroupKind.CONSUMER: COUNTS}
EVERY_KIND = {**CONSUMER, GroupKind.SHARE: COUNTS, GroupKind.STREAMS: COUNTS}

OLDEST = Release("3.0.2", zookeeper=True, kinds=CLASSIC)
LAST_WITH_ZOOKEEPER = Release("3.9.2", zookeeper=True, kinds=CLASSIC)
NEWEST = Release(DEFAULT_VERSION, kinds=EVERY_KIND)

EARLY_CONSUMER_GROUPS = Release(
    "3.7.2",
    kinds={**CLASSIC, GroupKind.CONSUMER: HELD},
    config={"group.coordinator.new.enable": "true", "unstable.api.versions.enable": "true"},
)
"""KIP-848 in early access: its listing tells no kind."""

TESTED = (NEWEST, LAST_WITH_ZOOKEEPER, OLDEST)

ALL = (
    OLDEST,
    Release("3.1.2", zookeeper=True, kinds=CLASSIC),
    Release("3.2.3", zookeeper=True, kinds=CLASSIC),
    Release("3.3.2", kinds=CLASSIC),
    Release("3.4.1", kinds=CLASSIC),
    Release("3.5.2", kinds=CLASSIC),
    Release("3.6.2", zookeeper=True, kinds=CLASSIC),
    EARLY_CONSUMER_GROUPS,
    Release("3.8.1", kinds=CONSUMER, config={NEW_GROUPS: "classic,consumer"}),
    LAST_WITH_ZOOKEEPER,
    Release("3.9.2", kinds=CONSUMER, config={NEW_GROUPS: "classic,consumer"}),
    Release(
        "4.0.2",
        kinds={**CONSUMER, GroupKind.SHARE: HELD},
        config={
            NEW_GROUPS: "classic,consumer,share",
            "group.share.enable": "true",
            "unstable.api.versions.enable": "true",
        },
    ),
    Release(
        "4.1.2",
        kinds=EVERY_KIND,
        config={
            NEW_GROUPS: "classic,consumer,share,streams",
            "unstable.api.versions.enable": "true",
            "unstable.feature.versions.enable": "true",
        },
        features=("share.version=1", "streams.version=1"),
    ),
    Release("4.2.0", kinds=EVERY_KIND),
    Release("4.3.1", kinds=EVERY_KIND),
    NEWEST,
)


def chosen() -> tuple[Release, ...]:
    """Raises ValueError for a label that no release has."""
    wanted = os.environ.get("RETENTIOND_RELEASES", "")
    if not wanted:
        return TESTED
    if wanted == "all":
        return ALL
    by_label = {str(release): release for release in ALL}
    if unknown := set(wanted.split(",")) - by_label.keys():
        raise ValueError(f"no release is called {unknown}: there are {', '.join(by_label)}")
    return tuple(by_label[label] for label in wanted.split(","))
