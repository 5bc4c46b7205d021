"""The witness before the tests' brokers: a test fails whose retentiond it finds at fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devkit.witness.judge import Verdict
from devkit.witness.witness import Witness
from devkit.witness.words import Document

CONFIGURED: list[Document] = []
"""The configurations of the running test, also those that were in force before."""


def seen() -> Verdict:
    """About what has passed since the last call, on all clusters."""
    verdict = Verdict()
    for witness in [*Witness.open_ones]:
        verdict.add(witness.verdict(CONFIGURED))
    return verdict


@pytest.fixture(autouse=True)
def _witnessed() -> Iterator[None]:
    """Not where a test has told of no configuration: it may call a client by itself."""
    CONFIGURED.clear()
    yield
    faults = seen().faults
    assert not (CONFIGURED and faults), "the witness on the wire found:\n" + "\n".join(faults)
