"""The witness before the tests' brokers: a test fails whose retentiond it finds at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from devkit.witness.judge import Verdict
from devkit.witness.watch import Watch
from devkit.witness.witness import Witness
from devkit.witness.words import BY_HAND, Words, by

CONFIGURED: list[Mapping[str, Any]] = []
"""The configurations of the running test, also those that were in force before."""

BY_HANDS: Mapping[str, Any] = {"topics": []}


WATCHES: WeakKeyDictionary[Witness, Watch] = WeakKeyDictionary()
"""They know whose a connection is that goes on from test to test."""


def by_hand() -> None:
    """`retentiond delete-records` is run, which no configuration bounds."""
    CONFIGURED.append(BY_HANDS)


def words(topic: str) -> Sequence[Words] | None:
    if not CONFIGURED:
        return None
    return [*by(CONFIGURED)(topic), *([BY_HAND] if BY_HANDS in CONFIGURED else ())]


def verdicts() -> list[Verdict]:
    """About what has passed since the last call, of each cluster."""
    found = []
    for witness in list(Witness.open_ones):
        watch = WATCHES.setdefault(witness, Watch(words))
        watch.verdict = Verdict()
        watch.look(witness.take(), is_last=True)
        found.append(watch.verdict)
    return found


@pytest.fixture(autouse=True)
def _witnessed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Not where a test has told of no configuration: it may call a client by itself."""
    CONFIGURED.clear()
    yield
    faults = [fault for verdict in verdicts() for fault in verdict.faults]
    if not CONFIGURED or request.node.get_closest_marker("unwitnessed"):
        return
    assert not faults, "the witness on the wire found:\n" + "\n".join(faults)
