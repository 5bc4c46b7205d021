"""Whether a broker answers."""

from __future__ import annotations

from enum import Enum


class BrokerState(Enum):
    UP = "up"
    DEAD = "dead"  # it does not answer, and the cluster has not noticed yet
    FENCED = "fenced"  # the cluster has taken its leaderships away and shows it to nobody
