"""docs/gitops.md as it is written: its files in a repository, its script in a pipeline."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml

from tests.support.builders.past_clusters import (
    BEGIN,
    PastCluster,
    PastEntry,
    commit_row,
    partition_row,
)
from tests.support.command_here import run_here
from tests.support.walked_pages import is_shown, titled_blocks

pytestmark = [pytest.mark.spark, pytest.mark.thorough("a pipeline's processes")]

PAGE = titled_blocks("gitops.md")

FILES = ("retentiond.yaml", "policies.d/payments.yaml", "policies.d/search.yaml", "review.sh")

HOUR_MS = 3_600_000


DOCKER = r"""#!/bin/bash
# `docker run OPTIONS IMAGE ARGUMENTS`, without the image: with the variables named, and no others.
given=()
until [ "$1" = retentiond ]; do
  case $1 in
    --env) [ -z "${!2+x}" ] || given+=("$2=${!2}"); shift ;;
    --workdir) cd "$2" && shift ;;
  esac
  shift
done
shift
exec 3<>/dev/tcp/127.0.0.1/$TEST_PORT
printf '%s\0' "$PWD" "${#given[@]}" "${given[@]}" "$@" >&3
printf '\n' >&3
read -r code said <&3
cat "$said.out"
cat "$said.err" >&2
exit "$code"
"""


def serve(listener: socket.socket, shell: subprocess.Popen[str], folder: Path) -> None:
    """While the shell goes on, this process runs what its containers are to run."""
    listener.settimeout(0.05)
    while shell.poll() is None:
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as stream:
                cwd, count, *words = stream.readline().split("\0")[:-1]
                given, arguments = words[: int(count)], words[int(count) :]
                environment = dict(each.split("=", 1) for each in given)
                done = run_here(*arguments, cwd=Path(cwd), environment=environment)
                (folder / "said.out").write_text(done.out)
                (folder / "said.err").write_text(done.err)
                stream.write(f"{done.code} {folder / 'said'}\n")


def in_a_shell(step: str, folder: Path, **given: Any) -> subprocess.CompletedProcess[str]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given["env"]["TEST_PORT"] = str(listener.getsockname()[1])
        with subprocess.Popen(
            ["bash", "-e", "-c", step], stdout=out, stderr=err, text=True, **given
        ) as shell:
            serve(listener, shell, folder)
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(step, shell.returncode, out.read(), err.read())


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
    """Some days until yesterday, longer than the longest retention of the page. In the last eight
    hours billing reads all of orders and is set back once."""
    begin_ms = (time.time_ns() // 1_000_000) - int(BEGIN.timestamp() * 1000) - 24 * HOUR_MS
    first = -80
    commits = {first: 0, 0: 100, 5: 40}
    PastCluster(
        [
            PastEntry(
                begin_ms + hour * HOUR_MS,
                observed_ms=None if hour == first else HOUR_MS,
                is_whole=hour == first,
                rows=[
                    partition_row(
                        "orders",
                        high_watermark=100 if hour >= 0 else 0,
                        min_committed_offset=0 if hour < 0 else 100 if hour < 5 else 40,
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
            for hour in range(first, 8)
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
        given = environment | ({"MIN_OBSERVED": min_observed} if min_observed else {})
        done, _ = (in_a_shell(each, tmp_path, cwd=clone, env=given) for each in (script, tell))
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
    done = review("hours: 24", "hours: 6", min_observed="1h")
    assert done.code == 0, done.err
    assert "| orders | payments | retention.commitoffset.hours | 24 | 6 | sooner |" in done.summary
    assert "missed:" not in done.out


def test_a_past_of_hours_stops_the_pipeline_and_so_does_a_topic_without_one(
    review: Review,
) -> None:
    done = review("hours: 24", "hours: 6", min_observed=None)
    assert done.code == 3, done.err
    assert "observed too short: orders, for 3 days" in done.out
    done = review("name: orders", "name: unheard.of")
    assert done.code == 3, done.err
    assert "not judged: unheard.of (owner payments): the history has no such topic" in done.out
    assert "These lines under topics in policies.d/payments.yaml (owner payments)" in done.out
    assert "clicks.web" not in done.out  # search has changed nothing


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
