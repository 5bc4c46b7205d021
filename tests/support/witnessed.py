"""The witness before the tests' brokers: a test fails whose retentiond it finds at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from devkit.witness.judge import Verdict
from devkit.witness.watch import Watch
from devkit.witness.witness import Witness
from devkit.witness.words import BY_HAND, Words, by

CONFIGURED: list[Mapping[str, Any]] = []
"""The configurations of the running test, also those that were in force before."""

BY_HANDS: Mapping[str, Any] = {"topics": []}


def by_hand() -> None:
    """`retentiond delete-records` is run, which no configuration bounds."""
    CONFIGURED.append(BY_HANDS)


def words(topic: str) -> Sequence[Words] | None:
    if not CONFIGURED:
        return None
    return [*by(CONFIGURED)(topic), *([BY_HAND] if BY_HANDS in CONFIGURED else ())]


def verdicts() -> list[Verdict]:
    """About what has passed since the last call, of each cluster."""
    watches = [Watch(words) for _ in Witness.open_ones]
    for watch, witness in zip(watches, list(Witness.open_ones), strict=True):
        watch.look(witness.take(), is_last=True)
    return [watch.verdict for watch in watches]


@pytest.fixture(autouse=True)
def _witnessed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Not where a test has told of no configuration: it may call a client by itself."""
    CONFIGURED.clear()
    yield
    if not CONFIGURED or request.node.get_closest_marker("unwitnessed"):
        for witness in list(Witness.open_ones):
            witness.take()
        return
    faults = [fault for verdict in verdicts() for fault in verdict.faults]
    assert not faults, "the witness on the wire found:\n" + "\n".join(faults)
