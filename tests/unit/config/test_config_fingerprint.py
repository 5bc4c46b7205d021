"""Two processes find out whether they have the same configuration in force."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retentiond.config import fingerprint as module
from retentiond.config import load
from retentiond.config.fingerprint import fingerprint, proof

TEXT = """\
kafka: {bootstrap.servers: 'kafka:9092', sasl.password: secret}
state_dir: state
policies:
  - file: policies.d/payments.yaml
    topics: ['payments\\..*']
    forbid: [groups.only, groups.exclude]
  - policies.d/*.yaml
topics:
  - pattern: 'stage\\..*'
    except: ['stage\\.x', 'stage\\.y']
    retention.commitoffset.enable: true
    groups:
      required: [billing]
      exclude: ['console-.*']
"""
TEAM = """\
owner: %s
topics: [{name: '%s.a', retention.commitoffset.enable: true}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "policies.d").mkdir()
    for owner in ("payments", "search"):
        (tmp_path / "policies.d" / f"{owner}.yaml").write_text(TEAM % (owner, owner))
    made = tmp_path / "retentiond.yaml"
    made.write_text(TEXT)
    return made


IN_ANOTHER = """\
from pathlib import Path
from retentiond.config import load
from retentiond.config.fingerprint import fingerprint
print(fingerprint(load(Path("retentiond.yaml"))).hex())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_has_the_same_whatever_path_it_was_given(
    file: Path, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER], env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == fingerprint(load(file)).hex()


def in_main(before: str, after: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(file.read_text().replace(before, after))


def in_team(before: str, after: str) -> Callable[[Path], object]:
    def change(file: Path) -> None:
        in_main(before, after)(file.parent / "policies.d" / "payments.yaml")

    return change


@pytest.mark.parametrize(
    "change",
    [
        in_main("secret", "other"),
        in_main("kafka:9092", "kafka:9093"),
        in_main("state_dir: state", "state_dir: another"),
        in_main("state_dir: state", "state_dir: state\ndry_run: true\nspark: {master: 'local[1]'}"),
        in_main("'stage\\.y'", "'stage\\.z'"),
        in_main("console-", "shell-"),
        in_main("groups.only, ", ""),
        in_team("owner: payments", "owner: somebody"),
        in_team("enable: true", "enable: true, retention.commitoffset.hours: 2"),
        in_team("owner: payments", "owner: [payments"),
    ],
)
def test_whatever_changes_what_the_files_mean_makes_it_another(
    file: Path, change: Callable[[Path], object]
) -> None:
    before = fingerprint(load(file))
    change(file)
    assert fingerprint(load(file)) != before


def test_how_the_files_are_written_makes_no_difference(file: Path) -> None:
    before = fingerprint(load(file))
    file.write_text(f"# a comment\n{TEXT}".replace("[billing]", "\n      - 'billing'"))
    assert fingerprint(load(file)) == before


def test_another_version_has_another(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(file)
    before = fingerprint(config)
    monkeypatch.setattr(module, "__version__", "0.0.1")
    assert fingerprint(config) != before


def test_a_held_file_counts_as_what_it_is(file: Path) -> None:
    """A daemon goes on without a fenced file that has become bad; a command reads the same."""
    in_team("owner: payments", "owner: [payments")(file)
    now = load(file)
    assert [each.name for each in now.unreadable] == ["policies.d/payments.yaml"]
    assert fingerprint(load(file)) == fingerprint(now)


def test_the_proof_changes_with_each_key(file: Path) -> None:
    of = fingerprint(load(file))
    assert proof(of, "a") == proof(of, "a") != proof(of, "b")
    assert of.hex() not in proof(of, "a")
