"""The doctor before a broker with TLS and logins: let in, or with the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.tools.doctor.examine import Examination
from retentiond.tools.doctor.finding import Level
from tests.support.brokers.examined import about, examined
from tests.support.brokers.secured import Section, Secured, shows
from tests.support.brokers.unsafe import REFUSALS

pytestmark = pytest.mark.broker


def examined_by(section: Section, folder: Path) -> Examination:
    return examined(section["bootstrap.servers"], folder, ["orders"], section)


@pytest.mark.parametrize("how", ["PLAIN", "mutual TLS"])
def test_whoever_is_let_in_has_the_brokers_examined(
    how: str, secured: Secured, tmp_path: Path
) -> None:
    mutual = how == "mutual TLS"
    section = secured.tls("MTLS", **shows(secured.client)) if mutual else secured.login(how)
    found = examined_by(section, tmp_path)
    assert [each.level for each in about(found, "brokers")] == [Level.OK]
    assert about(found, "bootstrap.servers") == []


def test_whoever_is_not_is_told_why_and_what_to_look_at(secured: Secured, tmp_path: Path) -> None:
    """What is said of every refusal: test_kafka_security.py."""
    refusal = REFUSALS[0]
    section = refusal.section(secured)
    found = examined_by(section, tmp_path)
    first = found.findings[0]
    assert (first.level, first.subject) == (Level.PROBLEM, "cluster")
    refusal.assert_said(first.sentence, section["bootstrap.servers"])
    assert {"state_dir", "port"} <= {each.subject for each in found.findings}
