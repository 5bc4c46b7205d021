"""What is in the chart beside its templates, and the examples; none of it needs Helm."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from jsonschema import Draft7Validator
from kubernetes_validate.utils import all_versions, validate

from devkit.chart import CHART as SOURCE
from devkit.chart import ROOT, SCHEMA, files
from retentiond.cli.main import app
from tests.support.chart import CASES, CHART, VALUES

EXAMPLES = SOURCE.parent / "examples"
REFUSED = sorted((CASES / "refused").glob("*.yaml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def problems(values: Path) -> list[str]:
    """What the schema says about them, with the chart's own values below, as Helm reads them."""
    given = read(values)
    merged = {**read(CHART / "values.yaml"), **given}
    schema = json.loads((CHART / SCHEMA).read_text())
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft7Validator(schema).iter_errors(merged)
    ]


def test_what_the_chart_has_from_elsewhere_is_the_same_there() -> None:
    made = files()
    assert {"README.md", "../../prometheus/alerts.yml"} <= made.keys()
    assert {name: (SOURCE / name).read_text() for name in made} == made, (
        "run: PYTHONPATH=scripts python -m devkit.chart"
    )


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_schema_accepts_values_that_are_right(values: Path) -> None:
    assert problems(values) == []


@pytest.mark.parametrize("values", REFUSED, ids=lambda path: path.stem)
def test_the_schema_refuses_values_that_are_wrong(values: Path) -> None:
    assert problems(values) != []


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / SCHEMA).read_text())["properties"]
    values = read(CHART / "values.yaml")
    assert schema.keys() - {"global"} == values.keys()
    for name, part in values.items():
        if "additionalProperties" in schema[name] and "properties" in schema[name]:
            assert part.keys() <= schema[name]["properties"].keys(), name


def test_no_value_asks_for_a_second_daemon_or_for_a_state_that_does_not_last() -> None:
    names = re.findall(r"^ *\"(\w+)\": {", (CHART / SCHEMA).read_text(), re.MULTILINE)
    assert "persistence" in names
    assert [n for n in names if re.search("replica|emptyDir|autoscal|ephemeral", n)] == []


def test_every_setting_of_the_configuration_can_be_given() -> None:
    schema = json.loads((CHART / SCHEMA).read_text())["$defs"]
    config = json.loads((ROOT / "config" / "retentiond.schema.json").read_text())
    assert schema["Config"]["properties"].keys() == config["properties"].keys()
    assert schema.keys() - {"Config"} == config["$defs"].keys()


def test_the_kafka_user_has_the_rights_of_the_document_and_no_others() -> None:
    section = (ROOT / "docs/security.md").read_text().partition("## Rights in Kafka")[2]
    wanted = set()
    for line in re.findall(r"^\$acls (.*)", section, re.MULTILINE):
        words = shlex.split(line)
        name = words[1] if words[0] != "--cluster" else None
        wanted.add((words[0].removeprefix("--"), name, words[-1]))
    user = read(EXAMPLES / "kafkauser.yaml")
    granted = {
        (acl["resource"]["type"], acl["resource"].get("name"), operation)
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert granted == wanted
    assert len(wanted) == 5


def test_the_values_beside_the_kafka_user_are_right(tmp_path: Path) -> None:
    """They name the Secret that Strimzi makes, and a topic is all that is missing."""
    text = (EXAMPLES / "kafkauser.yaml").read_text()
    _, _, comment = text.partition("The chart's values for it:")
    lines = [line.removeprefix("#") for line in comment.splitlines() if line.startswith("#  ")]
    values = yaml.safe_load("\n".join(lines))
    values["config"]["topics"] = [{"name": "orders.enriched"}]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    assert problems(tmp_path / "values.yaml") == []
    assert values["secrets"]["kafka"] == read(EXAMPLES / "kafkauser.yaml")["metadata"]["name"]


def test_the_sidecar_s_command_is_one_that_there_is_and_removes_nothing() -> None:
    spec = read(EXAMPLES / "orphans-sidecar.yaml")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    name, *arguments = container["args"]
    group: Any = typer.main.get_command(app)
    given = group.get_command(None, name).make_context(name, arguments).params
    loop = container["command"][2]
    assert 'retentiond "$@"; sleep' in loop
    assert given["output"] == "json"
    assert given["remove"] is False
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(given["state_dir"]), *map(str, given["log_dir"])} <= mounted
    assert spec["shareProcessNamespace"] is True


@pytest.mark.parametrize("version", [all_versions()[0], all_versions()[-1]])
def test_the_sidecar_is_a_container_that_kubernetes_knows(version: str) -> None:
    patch = read(EXAMPLES / "orphans-sidecar.yaml")
    spec = patch["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "data", "emptyDir": {}})  # the broker's own
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka-0"}, "spec": spec}
    assert version.startswith(validate(pod, version, strict=True))


@pytest.mark.parametrize("name", ["backup", "report"])
def test_the_jobs_beside_a_release_are_ones_that_kubernetes_and_retentiond_know(name: str) -> None:
    job = read(EXAMPLES / f"{name}-cronjob.yaml")
    for version in (all_versions()[0], all_versions()[-1]):
        assert version.startswith(validate(job, version, strict=True))
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts.keys() >= {"/etc/retentiond", "/var/lib/retentiond", "/tmp"}
    assert set(mounts.values()) == {volume["name"] for volume in spec["volumes"]}
    called = re.search(r'retentiond (backup) "(\S+)', container.get("command", [""])[-1])
    command, *arguments = called.groups() if called else container["args"]
    group: Any = typer.main.get_command(app)
    group.get_command(None, command).make_context(command, list(arguments))


def test_the_values_in_the_documents_are_right(tmp_path: Path) -> None:
    """Those of teams are in the page about teams."""
    _, _, of_teams = (ROOT / "docs/gitops.md").read_text().partition("\n## In Kubernetes\n")
    text = (ROOT / "docs/kubernetes.md").read_text() + of_teams
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    complete = yaml.safe_load(blocks[0])
    assert len(blocks) == 5
    for block in blocks:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump({**complete, **yaml.safe_load(block)}))
        assert problems(tmp_path / "values.yaml") == []
