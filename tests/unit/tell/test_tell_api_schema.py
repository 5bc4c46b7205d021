"""docs/api.schema.json describes every answer of ``/api/``, and docs/api.md has examples of it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from devkit.docs import api_schema
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import Orphans
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.fields import figures_of
from retentiond.model import Reason, TopicPartition
from retentiond.tell.report import GroupState
from retentiond.tell.web import Server
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    report = scenes.report(
        [
            scenes.partition("orders", 0, Reason.NOT_CONSUMED, start=200, committed=200, young=900),
            scenes.partition("clicks", 0, Reason.GROUP_WITHOUT_COMMIT, young=500),
            scenes.partition("__consumer_offsets", 1, Reason.CONSUMED),
        ]
    )
    states = {"billing": GroupState("consumer", "empty"), "idle": GroupState("share", "live")}
    scenes.remember(tmp_path, "orders", {"billing": {0: 200}, "gone": {0: 3}}, vanished=["gone"])
    scenes.remember(tmp_path, "clicks", {"billing": {}})
    at = TopicPartition("orders", 0)
    pressed = PressedLogDir(1, "/data", 10_240, 1_024, 2_560)
    disk = DiskReport(
        {at: 4_096},
        stuck=(Stuck(*at, StuckCause.REPLICA_GROWS, "broker 1 keeps it"),),
        orphans=(Orphans(2, "/a", 3, 700),),
        problems=("broker 3 tells nothing",),
        relief=(LogDirRelief(pressed, 1_024, 512, {"billing": 9}, {}),),
    )
    return Visitor(tmp_path, replace(report, group_states=states, disk=disk))


def closed(schema: Any) -> Any:
    """The schema where no object has other names than it says."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return parts | {"additionalProperties": False} if "required" in schema else parts


def problems(name: str, answer: Any) -> Iterator[str]:
    schema = closed(json.loads((DOCS / "api.schema.json").read_text()))
    validator = Draft202012Validator(
        schema | {"$ref": f"#/$defs/{name}"}, format_checker=FormatChecker()
    )
    return (error.message for error in validator.iter_errors(answer))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plan", "plan"),
        ("topics", "topics"),
        ("topic", "topics/orders"),
        ("topic", "topics/clicks"),
        ("groups", "groups"),
        ("group", "groups/billing"),
        ("group", "groups/gone"),
        ("group", "groups/idle"),
        ("health", "health"),
        ("error", "topics/nowhere"),
    ],
)
def test_each_answer_is_as_its_schema_says_and_has_no_other_name(
    visitor: Visitor, name: str, path: str
) -> None:
    assert list(problems(name, visitor.get(f"/api/{path}").json())) == []


def test_the_plan_that_is_validated_has_something_to_say_of_disks(visitor: Visitor) -> None:
    plan = visitor.get("/api/plan").json()
    assert all(plan[figure.name] for figure in figures_of(DiskReport))


def test_the_schema_is_valid_and_names_every_kind_of_answer() -> None:
    schema = api_schema.schema()
    Draft202012Validator.check_schema(schema)
    documented = set(re.findall(r"^\| `/api/([^`]+)`", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert documented == {"plan", "topics", "topics/NAME", "groups", "groups/NAME", "health"}
    assert schema["$defs"].keys() >= {"plan", "topics", "topic", "groups", "group", "health"}


@pytest.mark.parametrize("name", ["size_bytes", "groups"])
def test_an_answer_that_lacks_a_field_or_has_another_type_is_none(
    visitor: Visitor, name: str
) -> None:
    answer = visitor.get("/api/topics/orders").json()
    assert list(problems("topic", answer | {name: "?"}))
    del answer[name]
    assert list(problems("topic", answer))


@pytest.mark.skipif(shutil.which("jq") is None, reason="the examples use jq")
def test_the_examples_print_what_the_api_says(visitor: Visitor) -> None:
    examples = re.findall(r"```sh\n(.*?)```", (DOCS / "api.md").read_text(), re.DOTALL)
    assert examples
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(visitor.app, listener)
    server.start()
    try:
        for example in examples:
            here = example.replace("localhost:9477", f"127.0.0.1:{server.port}")
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", here],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            topics = visitor.get("/api/topics").json()["topics"]
            assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [
                topic["topic"] for topic in topics
            ]
    finally:
        server.stop()
