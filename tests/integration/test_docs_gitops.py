"""docs/gitops.md as it is written: its files in a repository, its script in a pipeline."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
import yaml

from tests.support.brokers.command import RETENTIOND
from tests.support.builders.past_clusters import (
    BEGIN,
    PastCluster,
    PastEntry,
    commit_row,
    partition_row,
)
from tests.support.walked_pages import is_shown, titled_blocks

pytestmark = [pytest.mark.spark, pytest.mark.thorough("a pipeline's processes")]

PAGE = titled_blocks("gitops.md")

FILES = ("retentiond.yaml", "policies.d/payments.yaml", "policies.d/search.yaml", "review.sh")

HOUR_MS = 3_600_000


DOCKER = f"""#!/bin/sh
# `docker run OPTIONS IMAGE ARGUMENTS`, without the image: with the variables named, and no others.
until [ "$1" = retentiond ]; do
  case $1 in
    --env) given="$given $2=$(printenv "$2")" && shift ;;
    --workdir) cd "$2" && shift ;;
  esac
  shift
done
shift
exec env --ignore-environment PATH="$PATH" HOME="$HOME" $given {RETENTIOND[0]} "$@"
"""


class Reviewed(NamedTuple):
    code: int
    out: str
    err: str
    summary: str


class Review(Protocol):
    def __call__(self, old: str, new: str, min_observed: str | None = "6h") -> Reviewed: ...


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def record_a_rewind(place: Path) -> None:
    """Eight hours of yesterday, in which billing reads all of orders and is set back once."""
    begin_ms = (time.time_ns() // 1_000_000) - int(BEGIN.timestamp() * 1000) - 24 * HOUR_MS
    commits = {0: 100, 5: 40}
    PastCluster(
        [
            PastEntry(
                begin_ms + hour * HOUR_MS,
                observed_ms=HOUR_MS if hour else None,
                is_whole=not hour,
                rows=[
                    partition_row(
                        "orders",
                        high_watermark=100,
                        min_committed_offset=100 if hour < 5 else 40,
                        binding_group="billing",
                    ),
                    partition_row("clicks.web", high_watermark=100),
                    *(
                        [commit_row("billing", "orders", 0, commits[hour])]
                        if hour in commits
                        else ()
                    ),
                ],
            )
            for hour in range(8)
        ]
    ).write(place)


@pytest.fixture
def review(tmp_path: Path) -> Review:
    """Makes a change in a clone of the page's repository, and runs the pipeline's steps there."""
    origin, clone, history = (tmp_path / name for name in ("origin.git", "clone", "history"))
    clone.mkdir()
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    git(clone, "init", "--quiet", "--initial-branch=main")
    for name in FILES:
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text(PAGE[name])
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "Policies")
    git(clone, "remote", "add", "origin", str(origin))
    git(clone, "push", "--quiet", "origin", "main")
    git(clone, "checkout", "--quiet", "-b", "change")
    record_a_rewind(history)
    summary = tmp_path / "summary.md"
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    environment = {
        "PATH": f"{docker.parent}:{os.environ['PATH']}",
        "IMAGE": "retentiond",
        "HOME": str(tmp_path),
        "RETENTIOND_HISTORY": str(history),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    job = yaml.safe_load(PAGE[".github/workflows/policies.yml"])["jobs"]["review"]
    script, tell = (step["run"] for step in job["steps"] if "run" in step)

    def reviewed(old: str, new: str, min_observed: str | None = "6h") -> Reviewed:
        """``min_observed`` None: as the script has it."""
        policy = clone / "policies.d" / "payments.yaml"
        assert old in policy.read_text()
        policy.write_text(policy.read_text().replace(old, new))
        done, _ = (
            subprocess.run(
                ["bash", "-e", "-c", step],
                cwd=clone,
                env=environment | ({"MIN_OBSERVED": min_observed} if min_observed else {}),
                capture_output=True,
                text=True,
                check=False,
            )
            for step in (script, tell)
        )
        assert not (clone / ".in-force").exists()
        text = summary.read_text() if summary.exists() else ""
        return Reviewed(done.returncode, done.stdout, done.stderr, text)

    return reviewed


def test_a_change_under_which_a_reader_would_have_missed_records_stops_the_pipeline(
    review: Review,
) -> None:
    done = review("hours: 24", "minutes: 30")
    assert done.code == 3, done.err
    assert done.summary == PAGE["changes.md"]
    assert PAGE["changes.md"] in done.out
    (shown,) = PAGE["simulate"].splitlines()
    assert any(is_shown(shown, line) for line in done.out.splitlines()), done.out


def test_a_change_that_costs_no_reader_a_record_passes(review: Review) -> None:
    done = review("hours: 24", "hours: 18")
    assert done.code == 0, done.err
    assert "| orders | payments | retention.commitoffset.hours | 24 | 18 | sooner |" in done.summary
    assert "missed:" not in done.out


def test_a_past_of_hours_stops_the_pipeline_and_so_does_a_topic_without_one(
    review: Review,
) -> None:
    done = review("hours: 24", "hours: 18", min_observed=None)
    assert done.code == 3, done.err
    assert "observed too short: orders, for 7 hours without gaps" in done.out
    done = review("name: orders", "name: unheard.of")
    assert done.code == 3, done.err
    assert "not judged: unheard.of (owner payments): the history has no such topic" in done.out


def test_what_is_not_deleted_sooner_passes_without_a_simulation(review: Review) -> None:
    new = "  - name: unheard.of\n    retention.commitoffset.enable: true\n    dry_run: true\n"
    done = review("topics:\n", f"topics:\n{new}", min_observed=None)
    assert done.code == 0, done.err
    assert "| unheard.of | payments | retention.commitoffset.enable | false | true |" in done.out
    assert "entries from" not in done.out


def test_a_change_of_nothing_that_counts_passes_without_a_simulation(review: Review) -> None:
    done = review("owner: payments\n", "owner: payments\n\n")
    assert (done.code, done.summary) == (0, "Nothing changes.\n"), done.err


def test_an_error_stops_the_pipeline_and_names_file_and_key(review: Review) -> None:
    done = review("hours: 24", "hour: 24")
    assert done.code == 2
    assert "policies.d/payments.yaml: topics[0].retention.commitoffset.hour" in done.err
